/** Formats times, numbers and names for people. Does not access the DOM. */

const MINUTE = 60
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const UNITS = /** @type {const} */ ([
  [DAY, 'd', 'days'],
  [HOUR, 'h', 'h'],
  [MINUTE, 'min', 'min'],
  [1, 's', 's'],
])

/**
 * Format a number with commas: 12,345.
 * @param {number} value
 */
export const number = (value) => value.toLocaleString('en-US')

/**
 * Format a number with its noun: "1 key", "2 keys".
 * @param {number} value
 * @param {string} noun
 * @param {string} [plural]
 */
export const count = (value, noun, plural = `${noun}s`) => `${number(value)} ${value === 1 ? noun : plural}`

/**
 * Return the present values. The API omits unset members, so they are undefined and not null.
 * @template T
 * @param {(T | false | null | undefined | '' | 0)[]} values
 * @returns {T[]}
 */
export const present = (values) => /** @type {T[]} */ (values.filter(Boolean))

/**
 * Format a duration in one unit, rounded down: "59 s", "10 min", "3 h", "2 days".
 * @param {number} seconds
 */
export function span(seconds) {
  const length = Math.max(0, Math.floor(seconds))
  for (const [size, , name] of UNITS) {
    if (length >= size) {
      const units = Math.floor(length / size)
      return `${number(units)} ${name === 'days' && units === 1 ? 'day' : name}`
    }
  }
  return '0 s'
}

/**
 * Format the difference between a time and `now`, in the past or the future.
 * @param {string} time of the API, for example 2026-11-22T03:21:13Z
 * @param {number} now in milliseconds
 */
export function ago(time, now) {
  const seconds = (now - Date.parse(time)) / 1000
  if (seconds < -1) return `in ${span(-seconds)}`
  return seconds < 5 ? 'now' : `${span(seconds)} ago`
}

/** Preferences for times: exact instead of ages; in local time instead of UTC. */
export const shownTimes = { isExact: false, isLocal: false }

/**
 * Format a time by the preferences: its age, or exactly. An older time includes its year.
 * @param {string} time
 * @param {number} now in milliseconds
 */
export function formatTime(time, now) {
  if (!shownTimes.isExact) return ago(time, now)
  const exact = second(inZone(time))
  return Math.abs(now - Date.parse(time)) < 300 * DAY * 1000 ? exact.slice(5, 16) : exact.slice(0, 10)
}

/**
 * Format a time to the second, with its zone.
 * @param {string} time
 */
export const exactly = (time) => `${second(inZone(time))} ${shownTimes.isLocal ? 'local time' : 'UTC'}`

/** @param {string} time */
function inZone(time) {
  const moment = new Date(time)
  return shownTimes.isLocal ? moment.getTime() - moment.getTimezoneOffset() * MINUTE * 1000 : moment.getTime()
}

/**
 * Format a time in UTC to the minute: 2026-11-22 03:21.
 * @param {string | number} time
 */
export const minute = (time) => second(time).slice(0, 16)

/**
 * Format a time in UTC to the second: 2026-11-22 03:21:13.
 * @param {string | number} time
 */
export const second = (time) => new Date(time).toISOString().slice(0, 19).replace('T', ' ')

/**
 * Format hours and minutes in UTC: 03:21.
 * @param {string | number} time
 */
export const clock = (time) => second(time).slice(11, 16)

/**
 * Format a date in UTC: 2026-11-22.
 * @param {string | number} time
 */
export const date = (time) => second(time).slice(0, 10)

/**
 * Format a time in the form of the API: 2026-11-22T03:21:13Z.
 * @param {number} time in milliseconds
 */
export const stamp = (time) => `${second(time).replace(' ', 'T')}Z`

/**
 * Return the first or last second of a UTC day or minute, in the form of the API. Other texts are unchanged.
 * @param {string} text for example 2026-11-22, or 2026-11-22T03:21
 * @param {boolean} [isEnd]
 */
export const instant = (text, isEnd = false) =>
  /^\d{4}-\d\d-\d\d$/.test(text)
    ? `${text}T${isEnd ? '23:59:59' : '00:00:00'}Z`
    : /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d$/.test(text)
      ? `${text.replace(' ', 'T')}:${isEnd ? '59' : '00'}Z`
      : text

/**
 * Return bytes as hexadecimal digits.
 * @param {Uint8Array} bytes
 */
export const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')

/**
 * Return the end of an identifier, which people use to distinguish it: …5bgm52.
 * @param {string} identifier
 */
export const short = (identifier) => `…${identifier.slice(-6)}`

/**
 * Return the name of an actor without the tenant: an account, API key, operator, or part of the service.
 *
 * An API key appears with its name at that time, or with the end of its identifier. A person appears with name and
 * e-mail.
 * @param {string} identity of the API, for example fraud-desk@acme.svc
 * @param {string | null} [key] the name of the API key, or of the person
 */
export function nameOf(identity, key = null) {
  const [name = identity] = identity.split('@')
  if (name === 'system+operator') return 'the operator'
  if (name.startsWith('system+svc_idp_')) return `the identity provider ${key ?? short(name)}`
  if (name.startsWith('system+')) return `the service (${name.slice(7)})`
  if (!identity.endsWith('.svc')) return key && key !== identity ? `${key} (${identity})` : identity
  if (name.startsWith('svc_ak_')) return key ?? `API key ${short(name)}`
  return key && key !== name ? `${name} (${key})` : name
}

/**
 * Format seconds as typed input in the largest unit: `6h` for 21600.
 * @param {number} time in seconds
 */
export const brief = (time) => {
  const [size, unit] = UNITS.find(([each]) => time >= each && time % each === 0) ?? [1, 's']
  return `${time / size}${unit[0]}`
}

/**
 * Parse a typed duration into seconds; NaN if it is invalid.
 * @param {string} text
 */
export const seconds = (text) => {
  const [, value = '', letter = 's'] = /^\s*(\d+) ?([smhd])?\s*$/.exec(text) ?? []
  const [size] = UNITS.find(([, unit]) => unit.startsWith(letter)) ?? [1]
  return value ? Number(value) * size : NaN
}

/**
 * Describe a revoked token in words. Returns an empty text for any other warrant.
 *
 * Without its value, the text contains its identifier.
 * @param {{warrant_id: string, token_issuer?: string, token_value?: string}} record
 */
export function tokenWords({ warrant_id: warrant, token_issuer: issuer, token_value: value }) {
  const [, kind, end] = /^svc_wrt_(sub(?=.*-\d{12}$)|sid|jwt)-[\w-]{43}(?:-(\d{12}))?$/.exec(warrant) ?? []
  if (!kind) return ''
  const whose = value && `${value}${issuer ? ` of ${issuer}` : ''}`
  if (kind !== 'sub') return `${kind === 'sid' ? 'Session' : 'Token'} ${whose || warrant}`
  const until = `until ${second(Number(end) * 1000)} UTC`
  return whose ? `All tokens of user ${whose} ${until}` : `All tokens of a user ${until} (${warrant})`
}
