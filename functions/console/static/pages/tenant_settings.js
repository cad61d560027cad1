/** The page of tenant settings, with the effect of each. */

import { ApiError, get, patch } from '../api.js'
import { brief, number, seconds, span } from '../format.js'
import { html, one, put } from '../html.js'
import { choice, field, submitted } from '../parts/dialog.js'
import { announce, banner, facts, heading, named, problem, ready, skeleton, when } from '../parts/panel.js'
import { may } from '../session.js'

/** @typedef {Api.TenantSettings} Settings */
/**
 * @typedef {object} Setting the `choices` with their words
 * @property {keyof Settings & keyof Api.UpdateTenantSettings} name
 * @property {string} words
 * @property {string} [unit]
 * @property {Record<string, string>} [choices]
 * @property {(value: any) => string} effect
 */

/** Units of a typed duration: `6h` is equivalent to `21600`. */
const TIME = 's, m, h or d'

/** @type {Setting[]} */
const SETTINGS = [
  { name: 'name', words: 'Name', effect: () => 'The name of the tenant, for people.' },
  {
    name: 'srl_ttl_seconds',
    words: 'Lists live for',
    unit: TIME,
    effect: (value) =>
      `A list is valid for ${span(value)}: ` +
      'an authorizer that hears nothing for as long refuses everything after that. ' +
      'A new list is published at half of the time.',
  },
  {
    name: 'srl_publication',
    words: 'Lists are published',
    choices: { scheduled: 'by the schedule', immediate: 'after each change' },
    effect: (value) =>
      value === 'immediate'
        ? 'A list follows each change at once, and is published for a twentieth of the time at most.'
        : 'A list is published within about a minute of a change. Authorizers that follow the feed hear of it at once.',
  },
  {
    name: 'feed_window_ms',
    words: 'The feed gathers changes for',
    unit: 'milliseconds',
    effect: (value) =>
      `Changes within ${number(value)} ms of each other are one entry of the feed. ` +
      'A longer window makes fewer entries, and delays changes that follow each other.',
  },
  {
    name: 'rotation_grace_seconds',
    words: 'A new list signer waits for',
    unit: TIME,
    effect: (value) =>
      `A pending signer can be activated after ${span(value)}, ` +
      'so that each authorizer has fetched its key before it signs.',
  },
  {
    name: 'unrevoke_policy',
    words: 'Revocations are taken back by',
    choices: { any: 'every revoker', own: 'who made them, and admins' },
    effect: (value) =>
      value === 'own'
        ? 'A key without the scope admin takes back only what its own identity revoked, ' +
          'so that a stolen one cannot let in what others revoked.'
        : 'Each key with the scope revoker can take back each revocation, whoever made it.',
  },
  {
    name: 'max_authorizers',
    words: 'Authorizers of one API key',
    unit: 'registrations',
    effect: (value) =>
      `One API key may register ${number(value)} authorizers, so that a stolen one cannot fill the registry. ` +
      'A relay registers all that are behind it.',
  },
  {
    name: 'person_key_max_days',
    words: 'Keys of people last',
    unit: 'days',
    effect: (value) =>
      `An API key that a person makes ends after ${number(value)} days at most, an administrator's after 90.`,
  },
  {
    name: 'unused_key_days',
    words: 'Unused keys are revoked after',
    unit: 'days',
    effect: (value) =>
      value
        ? `A key that nobody used for ${number(value)} days is revoked. The last admin key stays.`
        : 'Off: unused keys stay. Otherwise 7 days or more.',
  },
  {
    name: 'audit_retention_days',
    words: 'Audit entries are kept for',
    unit: 'days',
    effect: (value) => `An entry is deleted after ${number(value)} days. What was deleted cannot be had again.`,
  },
]

export const title = 'Settings'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, { signal }) => {
  const head = heading(title, 'They hold for the whole tenant. Each is saved by itself.')
  const card = (/** @type {unknown} */ content) =>
    put(main, head, html`<section class="panel body">${content}</section>`)
  card(skeleton(8))
  card(forms(await get('/v1/tenant/settings', { signal })))
  ready()
}

/** @param {Settings} settings */
const forms = (settings) => [
  settings.delete_after &&
    banner(
      'revoked',
      html`This tenant is marked for deletion. The operator may remove it with all its data from
      ${when(settings.delete_after)}.`,
    ),
  SETTINGS.map((setting) => form(setting, settings)),
  html`<h2>Set by the operator</h2>`,
  facts([
    ['Tenant', html`<code>${settings.tenant_id}</code>`],
    ['Made', when(settings.created_at)],
    [
      'Requests',
      `${number(settings.rate_limit_per_second)} a second, ${number(settings.rate_limit_burst)} at once after a pause`,
    ],
  ]),
]

/**
 * Return the form of one setting: its value, its effect, and a button that saves it.
 * @param {Setting} setting
 * @param {Settings} settings
 * @returns {HTMLElement}
 */
function form(setting, settings) {
  const { name, words, unit } = setting
  const place = one(html`<section class="setting" aria-label=${words}></section>`)
  const fault = one(html`<div></div>`)
  /** @param {Settings} present */
  const draw = (present) =>
    put(
      place,
      html`<form @submit=${save}>
        ${field(
          words,
          unit
            ? html`<span class="unit">${input(setting, present)}<span>${unit}</span></span>`
            : input(setting, present),
          setting.effect(present[name]),
        )}
        ${may() && html`<button>Save</button>`}
      </form>`,
      fault,
    )
  const save = submitted(async (form) => {
    const given = String(form.get(name))
    put(fault)
    try {
      draw(
        await patch('/v1/tenant/settings', { [name]: unit === TIME ? seconds(given) : unit ? Number(given) : given }),
      )
      announce(`${words}: saved.`)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      put(fault, problem(error, 'It was not saved.'))
    }
  })
  draw(settings)
  return place
}

/**
 * @param {Setting} setting
 * @param {Settings} settings
 */
function input({ name, choices, unit }, settings) {
  const value = unit === TIME ? brief(Number(settings[name])) : settings[name]
  if (!may()) return html`<output>${named(choices?.[String(value)] ?? value)}</output>`
  if (choices)
    return choice(
      name,
      Object.entries(choices).map(([each, words]) => [each, words, each === value]),
    )
  const pattern = unit === TIME ? '[0-9]+ ?[smhd]?' : unit ? '[0-9]+' : null
  return html`<input
    name=${name}
    value=${value}
    required
    inputmode=${unit && unit !== TIME ? 'numeric' : null}
    pattern=${pattern}
    autocomplete="off"
  />`
}
