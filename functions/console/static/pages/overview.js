/** The overview: the propagation of revocations, the state of the SRL, and tasks for a person. */

import { now, post } from '../api.js'
import { isReplaced } from '../api_keys.js'
import { isSilent, quietAfter } from '../authorizers.js'
import { clock, count, date, nameOf, number, present, second, short, span } from '../format.js'
import { html, one, put, svg } from '../html.js'
import { aged, subscribe, ownerOf, readCached, retry } from '../store.js'
import {
  announce,
  banner,
  button,
  objectName,
  heading,
  userText,
  problem,
  ready,
  skeleton,
  when,
} from '../components/panel.js'
import { icon } from '../components/tag.js'
import { isNew, label, trouble, warning } from '../charts/overview.js'
import { hasScope, currentCaller } from '../session.js'

export const title = 'Overview'

/** @typedef {import('../store.js').Entry} Entry */
/** @typedef {import('../components/tag.js').State} State */
/**
 * @typedef {object} Task it has a link, or buttons
 * @property {State} state
 * @property {unknown} what
 * @property {unknown} why
 * @property {string} [href]
 * @property {string} [action]
 * @property {unknown} [buttons]
 */

const DAY = 86_400_000
/** Seconds between reads: propagation, SRL, data that people change, data that changes automatically. */
const [OFTEN, LIST, SOON, SELDOM] = [2, 5, 15, 60]
const [TASKS, DAYS, HOURS, NEWEST] = [8, 14, 12, 6]
const ENDS_SOON = 14 * DAY
const FLEET = '/v1/authorizers/summary'
const LIST_STATUS = '/v1/revocations/srl/status'
/** Up to this number of authorizers, the page reads and names the affected ones; above, it shows only counts. */
const NAMED = 1000

/** Cards of approvals, with buttons. @type {Task[]} */
let approvals = []

/**
 * @param {HTMLElement} main
 * @param {{route: {query: URLSearchParams}, signal: AbortSignal}} context
 */
export async function show(main, { route, signal }) {
  const isHourly = route.query.get('interval') === 'hour'
  const fault = one(html`<div></div>`)
  const steps = one(html`<div class="body"></div>`)
  approvals = []
  void readApprovals(signal).catch((error) => {
    if (!signal.aborted) throw error
  })
  const draw = () => {
    const known = sources(isHourly)
    const isFirst = known.list?.data && isNew(known.list.data)
    if (isFirst && !steps.childElementCount)
      void import('./first_steps.js').then(({ firstSteps }) => firstSteps(steps, signal))
    put(
      main,
      heading(title, sentence(known.fleet)),
      stale(known),
      alarm(known.list?.data ?? null, fault),
      fault,
      isFirst ? steps : numbers(known),
      html`<div class="halves">
        ${needs(known)}
        <div class="body">${bars(known.bars, isFirst, isHourly)}${newest(known.changes, isFirst)}</div>
      </div>`,
    )
    if (Object.values(known).every((each) => each === null || each.at || each.error)) ready()
  }
  subscribe(draw, signal)
}

/** Return the path of the revocation counts. @param {boolean} isHourly */
const counts = (isHourly) => {
  const from = date(now() - (isHourly ? 1 : DAYS - 1) * DAY)
  return `/v1/revocations/counts?from=${from}&to=${date(now())}${isHourly ? '&interval=hour' : ''}`
}

/** Return the stored data of the page; null where the key has no permission. @param {boolean} isHourly */
function sources(isHourly) {
  const [reads, audits] = [hasScope('read-only', 'auditor'), hasScope('revoker', 'auditor')]
  return {
    fleet: reads ? readCached(FLEET, OFTEN) : null,
    list: reads || audits ? readCached(LIST_STATUS, LIST) : null,
    bars: audits ? readCached(counts(isHourly), SELDOM) : null,
    changes: audits ? readCached(`/v1/changes?limit=${NEWEST}`, SOON) : null,
    webhooks: reads ? readCached('/v1/webhooks', SOON, 'webhooks') : null,
    keys: reads ? readCached('/v1/api-keys', SELDOM, 'api_keys') : null,
    suspended: hasScope('read-only', 'signer', 'auditor')
      ? readCached('/v1/keys?status=suspended&limit=100', SOON)
      : null,
    signers: readCached('/v1/revocations/srl/keys', SELDOM),
  }
}

/** @typedef {ReturnType<typeof sources>} Known */

/** Only people request and decide approvals. @param {AbortSignal} signal */
async function readApprovals(signal) {
  if (!currentCaller().person_id) return
  const { approvalCards } = await import('../components/approvals.js')
  const again = async () => {
    const cards = await approvalCards(signal, again)
    approvals = cards.map((each) => ({ ...each, state: 'wait' }))
  }
  await again()
}

/** @param {Entry | null} fleet */
function sentence(fleet) {
  if (!fleet?.data) return null
  const summary = /** @type {Api.FleetSummary} */ (fleet.data)
  const { total: registered, unknown, enforced, fail_closed: closed, unregistered } = summary
  const time = `As of ${second(fleet.at).slice(11)} UTC.`
  const clients = count(unregistered.length, 'unregistered authorizer')
  const at = unregistered.length
    ? html`<strong class="state open">${clients}</strong>: ${unregistered.map((each) => each.name).join(', ')}. ${time}`
    : time
  if (!registered) return html`No authorizer has registered yet. ${unregistered.length > 0 && at}`
  if (!unknown)
    return html`${number(registered)} of ${number(registered)} registered authorizers refuse revoked warrants. ${at}`
  const most = enforced + closed > unknown ? 'Most registered authorizers refuse revoked warrants.' : ''
  return html`${most} <strong class="state open">${count(unknown, 'authorizer')}</strong> may still accept some. ${at}`
}

/** Return one banner for data that could not be renewed. @param {Known} known */
function stale({ fleet, list }) {
  const entry = [list, fleet].find((each) => each?.at && each.error)
  if (!entry) return null
  const time = html`<strong>As of ${clock(entry.at)} UTC.</strong>`
  return banner('unknown', html`${time} The service is not responding. The last data is shown.`)
}

/**
 * Return the most severe problem of the SRL, with a button that publishes the next SRL.
 * @param {Api.ListStatus | null} list
 * @param {Element} fault place for a failure of the publication
 */
function alarm(list, fault) {
  const kind = list && trouble(list, now())
  if (!kind) return null
  const publish = async (/** @type {Event} */ { currentTarget }) => {
    const pressed = /** @type {HTMLButtonElement} */ (currentTarget)
    pressed.disabled = true
    put(fault)
    try {
      const { version } = /** @type {Api.PublishedList} */ (await post('/v1/revocations/srl/regenerate'))
      announce(`SRL ${version} published.`)
    } catch (error) {
      put(fault, problem(error, 'The SRL could not be published.'))
    }
    pressed.disabled = false
  }
  const action = hasScope() && button('Publish SRL', publish, 'main')
  return banner(kind === 'expired' ? 'expired' : 'wait', warning(kind, list, now()), action)
}

/** Return four figures, each with a link to its rows. @param {Known} known */
function numbers({ fleet, list }) {
  const card = (
    /** @type {Entry | null} */ entry,
    /** @type {string} */ href,
    /** @type {string} */ words,
    /** @type {(data: any) => [unknown, unknown, State?]} */ draw,
  ) => {
    if (!entry) return null
    if (!entry.data)
      return html`<section class="panel figure">
        <h2>${words}</h2>
        ${waits(entry, words, entry === fleet ? FLEET : LIST_STATUS, 2)}
      </section>`
    const [value, note, state] = draw(entry.data)
    return html`<a class="panel figure" href=${href}
      ><h2>${words}</h2>
      <p class=${state ? `big state ${state}` : 'big'}>${value}</p>
      <small class="soft">${note}</small></a
    >`
  }
  return html`<div class="figures">
    ${[
      card(fleet, '#/authorizers?q=state:unknown', 'May accept revoked warrants', ({ unknown, total }) => [
        number(unknown),
        `of ${count(total, 'authorizer')}`,
        unknown ? 'open' : undefined,
      ]),
      card(fleet, '#/authorizers?q=state:enforced', 'Up to date', ({ enforced, sequence }) => [
        number(enforced),
        sequence === null ? 'no feed entry yet' : `entry ${number(sequence)}`,
      ]),
      card(list, '#/lists', 'SRL expiry', ({ version, expires_at, key_id }) => {
        const left = (Date.parse(expires_at) - now()) / 1000
        return left > 0
          ? [`in ${span(left)}`, `SRL ${number(version)}, signed by ${short(key_id)}`]
          : ['expired', `SRL ${number(version)}: authorizers that use it fail closed`, 'expired']
      }),
      card(list, '#/revocations', 'Revoked warrants', ({ count: size, version, pending, pending_truncated: more }) => {
        const waiting = `${number(pending)}${more ? ' or more' : ''} pending for SRL ${number(version + 1)}`
        return [number(size), pending || more ? waiting : `all in SRL ${number(version)}`]
      }),
    ]}
  </div>`
}

/**
 * Return a placeholder for data that is pending or failed.
 * @param {Entry} entry
 * @param {string} what
 * @param {string} path
 * @param {number} lines
 */
function waits({ error }, what, path, lines) {
  if (!error) return skeleton(lines)
  if (error.status === 404) return html`<p class="soft">This version of the service does not provide this data.</p>`
  return problem(error, `${what} could not be loaded.`, () => retry(path))
}

/** @param {Known} known */
function needs(known) {
  const { fleet, webhooks, keys, suspended, signers } = known
  const sources = [fleet, webhooks, keys, suspended, signers]
  const fault = sources.find((each) => each?.error && !each.at && each.error.status !== 404)?.error
  const tasks = [
    ...approvals,
    ...ofFleet(fleet?.data ?? null),
    ...(webhooks?.data ?? []).flatMap(broken),
    ...(suspended?.data?.keys ?? []).map(suspension),
    ...ending(keys?.data ?? []),
    ...(signers?.data?.keys ?? []).flatMap(ripe),
  ]
  const isRead = sources.every((each) => !each || each.at || each.error)
  const again = () => [FLEET, '/v1/webhooks', '/v1/api-keys', '/v1/revocations/srl/keys'].forEach(retry)
  return html`<section class="panel">
    <h2>Action required</h2>
    ${
      tasks.length > 0 &&
      html`<ul class="tasks">
        ${tasks.slice(0, TASKS).map(
          ({ state, what, why, href, action, buttons }) =>
            html`<li>
              ${icon(state)}
              <div>
                <p>${what}</p>
                <small class="soft">${why}</small>${buttons && html`<div class="actions">${buttons}</div>`}
              </div>
              ${href && html`<a class="button" href=${href}>${action}</a>`}
            </li>`,
        )}
      </ul>`
    }
    ${tasks.length > TASKS && html`<p class="soft">${number(tasks.length - TASKS)} more</p>`}
    ${fault && problem(fault, 'Some tasks could not be loaded.', again)}
    ${!tasks.length && !fault && (isRead ? html`<p class="soft">No action is required.</p>` : skeleton(4))}
  </section>`
}

/**
 * Return the tasks of the fleet, grouped by kind.
 * @param {Api.FleetSummary | null} counted
 * @returns {Task[]}
 */
function ofFleet(counted) {
  if (!counted?.total) return []
  // Otherwise the task only shows a count.
  const isSmall = counted.total <= NAMED
  const wanted = counted.unknown || counted.missed_heartbeat || counted.fail_open
  const authorizers = /** @type {Api.Authorizer[]} */ (
    (wanted && isSmall && readCached('/v1/authorizers?include=enforcement', SOON, 'authorizers').data) || []
  )
  /**
   * Return the task for some authorizers, with the reason for one authorizer alone.
   * @param {State} state
   * @param {Api.Authorizer[]} some
   * @param {number} size
   * @param {string} words
   * @param {string} why
   * @param {string} query
   * @param {(each: Api.Authorizer) => unknown} [alone]
   * @returns {Task | null}
   */
  const task = (state, some, size, words, why, query, alone = () => why) => {
    const [only] = some
    const action = 'View'
    if (some.length === 1 && only)
      return { state, what: objectName(only.name), why: alone(only), href: `#/authorizers/${only.id}`, action }
    const names = some.slice(0, 3).map(({ name }) => [', ', objectName(name)])
    const what = `${count(some.length || size, 'authorizer')} ${words}`
    const reasons = [why, names, some.length > 3 && ' …']
    return size || some.length ? { state, what, why: reasons, href: `#/authorizers?q=${query}`, action } : null
  }
  const conflicting = authorizers.filter(({ equivocation }) => equivocation)
  const unpublished = 'reported entries that this service did not publish'
  const failOpen = authorizers.filter(({ fail_open }) => fail_open)
  const lag = (/** @type {Api.Authorizer} */ { lag_entries: behind, owner }) =>
    html`fails open${behind ? `, with a lag of ${count(behind, 'entry', 'entries')}` : ' when stale'};
      <bdi>${ownerOf(owner)}</bdi>`
  const silent = authorizers.filter((each) => isSilent(each, now(), counted.total))
  const pause = `no heartbeat for more than ${span(quietAfter(counted.total))}`
  return present([
    task('revoked', conflicting, 0, 'with conflicting entries', unpublished, 'state:unknown'),
    task('open', failOpen, counted.fail_open, 'fail open when stale', 'by configuration', 'stale:open', lag),
    task('open', silent, counted.missed_heartbeat, 'missed a heartbeat', pause, 'heartbeat:missed'),
  ])
}

/**
 * @param {Api.Webhook} webhook
 * @returns {Task[]}
 */
function broken({ id, url, status, disabled_reason, failing_since, deferred_events }) {
  const why =
    status === 'disabled'
      ? disabled_reason !== 'requested' && 'webhook, disabled after failures'
      : failing_since
        ? html`webhook, failing since ${when(failing_since)}`
        : deferred_events > 0 && `webhook, ${count(deferred_events, 'deferred event')}`
  return why ? [{ state: 'revoked', what: objectName(url), why, href: `#/webhooks/${id}`, action: 'View' }] : []
}

/** @param {Api.SigningKey} key @returns {Task} */
const suspension = ({ id, name }) => ({
  state: 'suspended',
  what: userText(name),
  why: 'signing key, suspended: enable it or revoke it',
  href: `#/keys/${id}`,
  action: 'Review',
})

/**
 * Return the keys of the same account. Only the audit entry of a key names its account; without an entry, compare
 * names.
 * @param {Api.ApiKeySummary} key
 * @param {Api.ApiKeySummary[]} keys
 * @returns {Api.ApiKeySummary[]}
 */
function ofAccount({ id, name, created_at: from }, keys) {
  const log = readCached(`/v1/audit-logs?${new URLSearchParams({ resource_id: id, from })}`, SELDOM)
  const entries = /** @type {Api.AuditEntry[]} */ (log.data?.audit_logs ?? [])
  const account = entries
    .map(({ details }) => /** @type {any} */ (details).changes?.service_account_id?.new)
    .find(Boolean)
  const own = account && readCached(`/v1/api-keys?service_account_id=${account}`, SELDOM, 'api_keys').data
  return own ?? namesakes(name, keys)
}

/** @param {string} name @param {Api.ApiKeySummary[]} keys */
const namesakes = (name, keys) => keys.filter((each) => each.name === name)

/**
 * Return tasks for keys that expire soon, the earliest first, then for permanent admin keys.
 * @param {Api.ApiKeySummary[]} keys
 * @returns {Task[]}
 */
function ending(keys) {
  const endOf = (/** @type {Api.ApiKeySummary} */ { expires_at }) => (expires_at ? Date.parse(expires_at) : Infinity)
  // A key with a lifetime of at most a day, for example for a sign-in link, is meant to expire.
  const inUse = keys.filter(
    (key) => key.status === 'active' && endOf(key) > now() && endOf(key) - Date.parse(key.created_at) > DAY,
  )
  /** @param {Api.ApiKeySummary} key @param {unknown} why @param {string} action @returns {Task} */
  const task = ({ id, name }, why, action) => ({
    state: 'wait',
    what: userText(name),
    why,
    href: `#/api-keys/${id}`,
    action,
  })
  const soon = inUse
    .filter((key) => endOf(key) - now() < ENDS_SOON)
    .sort((one_, other) => endOf(one_) - endOf(other))
    // For later keys, compare only the names.
    .filter((key, index) => !isReplaced(key, index < TASKS ? ofAccount(key, keys) : namesakes(key.name, keys)))
  return [
    ...soon.map((key) => task(key, html`API key, expires ${when(key.expires_at)}`, 'Rotate')),
    ...inUse
      .filter(({ scopes, expires_at }) => scopes.includes('admin') && !expires_at)
      .map((key) => task(key, 'API key with full access, never expires', 'View')),
  ]
}

/** @param {Api.SrlKey} signer @returns {Task[]} */
function ripe({ key_id, status, activates_at }) {
  if (status !== 'pending' || !activates_at || Date.parse(activates_at) > now()) return []
  const [what, why] = [html`<code>${short(key_id)}</code>`, 'SRL signer, pending, ready to activate']
  return [{ state: 'wait', what, why, href: '#/lists', action: 'Activate' }]
}

/**
 * Return the counts of each bar: its name, its label, and the filter of its rows.
 * @param {Api.RevocationCounts} counted
 * @param {boolean} isHourly
 */
const spans = ({ days, hours }, isHourly) =>
  isHourly
    ? (hours ?? [])
        .filter(({ start }) => Date.parse(start) <= now())
        .slice(-HOURS)
        .map(({ start, ...sizes }) => {
          const hour = start.slice(0, 13)
          const name = `${hour.replace('T', ' ')}:00`
          return { ...sizes, name, below: clock(start), rows: [`${hour}:00`, `${hour}:59`] }
        })
    : days.map(({ date: day, ...sizes }) => ({ ...sizes, name: day, below: day.slice(5), rows: [day, day] }))

/**
 * Return a bar chart of revocations per day or hour, with links to the rows.
 * @param {Entry | null} entry
 * @param {boolean} isFirst
 * @param {boolean} isHourly
 */
function bars(entry, isFirst, isHourly) {
  if (isFirst) return null
  const name = `Revocations per ${isHourly ? 'hour' : 'day'}`
  if (!entry)
    return html`<section class="panel">
      <h2>${name}</h2>
      ${banner('info', 'This key cannot read revocations. Ask an administrator for an API key with the scope auditor.')}
    </section>`
  const shown = entry.data ? spans(entry.data, isHourly) : []
  const sum = (/** @type {typeof shown[number]} */ { created, by_key }) => (created ?? 0) + (by_key ?? 0)
  const most = Math.max(1, ...shown.map(sum))
  const high = (/** @type {number | null | undefined} */ size) => (size ? Math.max(2, (100 * size) / most) : 0)
  const bar = (/** @type {typeof shown[number]} */ each) => {
    const { created, by_key: byKey, name: title, below, rows } = each
    const theirs = high(byKey)
    const own = high(created) || (theirs ? 0 : 1)
    const text = created === null ? 'not counted yet' : count(created, 'revocation')
    const words = `${title}: ${text}${byKey ? `, and ${count(byKey, 'warrant')} by key revocation` : ''}`
    return html`<a href=${`#/revocations?from=${rows[0]}&to=${rows[1]}`} aria-label=${words} title=${words}
      ><b>${created === null ? '?' : label(sum(each), 30)}</b
      ><svg viewBox="0 0 10 100" preserveAspectRatio="none" aria-hidden="true">
        ${svg`<rect y=${100 - theirs} width="10" height=${theirs} class="by-key"/>
        <rect y=${100 - theirs - own} width="10" height=${own}/>`}</svg
      ><small>${below}</small></a
    >`
  }
  const [first, last] = [shown[0]?.rows[0], shown.at(-1)?.rows[1]]
  const periods = isHourly
    ? html`<a href="#/overview">${DAYS} days</a> · ${HOURS} hours`
    : html`${DAYS} days · <a href="#/overview?interval=hour">${HOURS} hours</a>`
  return html`<section class="panel">
    <header>
      <h2>${name}</h2>
      <small class="soft">${aged(entry)} ${periods}</small>
    </header>
    ${
      entry.data
        ? html`<div class="daily">${shown.map(bar)}</div>`
        : waits(entry, `The ${name.toLowerCase()}`, counts(isHourly), 4)
    }
    ${
      shown.some(({ by_key }) => by_key) &&
      html`<p class="legend soft">
        <span class="superseded"><i></i> individually</span>
        <span class="superseded"
          ><i class="by-key"></i>
          <a href=${`#/audit?action=key.revoke&from=${first}&to=${last}`}>by key revocation</a></span
        >
      </p>`
    }
  </section>`
}

/**
 * @param {Entry | null} entry
 * @param {boolean} isFirst
 */
function newest(entry, isFirst) {
  if (!entry || isFirst) return null
  const changes = /** @type {Api.ListedChange[]} */ (entry.data?.changes ?? [])
  const row = (/** @type {Api.ListedChange} */ { id, name, reason, recorded_at, actor }) =>
    html`<li>
      <a href=${`#/changes/${id}`}>${objectName(name ?? short(id))}</a
      ><bdi class="soft" dir="auto">${reason ?? (actor && nameOf(actor.identity, actor.name))}</bdi>${when(recorded_at)}
    </li>`
  return html`<section class="panel">
    <header>
      <h2>Recent changes</h2>
      <small class="soft">${aged(entry)}</small><a href="#/changes">View all</a>
    </header>
    ${!entry.data && waits(entry, 'The recent changes', `/v1/changes?limit=${NEWEST}`, 4)}
    ${
      entry.data &&
      (changes.length
        ? html`<ul class="changes">
            ${changes.map(row)}
          </ul>`
        : html`<p class="soft">No revocations yet.</p>`)
    }
  </section>`
}
