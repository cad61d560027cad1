/** The page of tenant settings, with the effect of each. */

import { ApiError, get, patch } from '../api.js'
import { brief, number, seconds, span } from '../format.js'
import { html, one, put } from '../html.js'
import { choice, field, submitted } from '../components/dialog.js'
import { announce, banner, facts, heading, userText, problem, ready, skeleton, when } from '../components/panel.js'
import { hasScope } from '../session.js'

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
  { name: 'name', words: 'Name', effect: () => 'The display name of the tenant.' },
  {
    name: 'srl_ttl_seconds',
    words: 'SRL lifetime',
    unit: TIME,
    effect: (value) =>
      `An SRL is valid for ${span(value)}. ` +
      'Authorizers that receive no newer SRL within that time fail closed. ' +
      'The next SRL is published after half of the time.',
  },
  {
    name: 'srl_publication',
    words: 'SRL publication',
    choices: { scheduled: 'on schedule', immediate: 'after each change' },
    effect: (value) =>
      value === 'immediate'
        ? 'An SRL follows each change immediately. Publication takes at most a twentieth of the time.'
        : 'An SRL is published within about a minute of a change. Authorizers on the feed receive it immediately.',
  },
  {
    name: 'feed_window_ms',
    words: 'Publication window',
    unit: 'milliseconds',
    effect: (value) =>
      `Changes within ${number(value)} ms share one feed entry. ` +
      'A longer window produces fewer entries, and delays changes in quick succession.',
  },
  {
    name: 'rotation_grace_seconds',
    words: 'Activation delay of SRL signers',
    unit: TIME,
    effect: (value) =>
      `A pending signer can be activated after ${span(value)}. ` + 'By then, each authorizer has fetched its key.',
  },
  {
    name: 'unrevoke_policy',
    words: 'Unrevoke policy',
    choices: { any: 'any revoker', own: 'the creator and administrators' },
    effect: (value) =>
      value === 'own'
        ? 'Without the scope admin, a key can unrevoke only what its own identity revoked. ' +
          'A stolen key cannot undo the revocations of others.'
        : 'Any key with the scope revoker can unrevoke any warrant.',
  },
  {
    name: 'max_authorizers',
    words: 'Authorizers per API key',
    unit: 'registrations',
    effect: (value) =>
      `An API key can register ${number(value)} authorizers. A stolen key cannot fill the registry. ` +
      'A relay registers all authorizers behind it.',
  },
  {
    name: 'person_key_max_days',
    words: 'API key lifetime for people',
    unit: 'days',
    effect: (value) =>
      `An API key that a person creates expires after at most ${number(value)} days (90 for an administrator).`,
  },
  {
    name: 'unused_key_days',
    words: 'Revocation of unused API keys',
    unit: 'days',
    effect: (value) =>
      value
        ? `API keys are revoked after ${number(value)} days without use, except the last admin key.`
        : 'Off. To enable it, enter 7 days or more.',
  },
  {
    name: 'audit_retention_days',
    words: 'Audit retention',
    unit: 'days',
    effect: (value) => `Audit entries are deleted after ${number(value)} days. Deleted entries cannot be recovered.`,
  },
]

export const title = 'Settings'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, { signal }) => {
  const head = heading(title, 'These settings apply to the whole tenant. Each is saved separately.')
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
      html`This tenant is marked for deletion. The operator can remove it with all its data from
      ${when(settings.delete_after)}.`,
    ),
  SETTINGS.map((setting) => form(setting, settings)),
  html`<h2>Managed by the operator</h2>`,
  facts([
    ['Tenant', html`<code>${settings.tenant_id}</code>`],
    ['Created', when(settings.created_at)],
    [
      'Rate limit',
      `${number(settings.rate_limit_per_second)} requests per second, bursts of ${number(settings.rate_limit_burst)}`,
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
  const draw = (present) => {
    const value = input(setting, present)
    const control = unit ? html`<span class="unit">${value}<span>${unit}</span></span>` : value
    put(
      place,
      html`<form @submit=${save}>
        ${field(words, control, setting.effect(present[name]))} ${hasScope() && html`<button>Save</button>`}
      </form>`,
      fault,
    )
  }
  const save = submitted(async (form) => {
    const text = String(form.get(name))
    const value = unit === TIME ? seconds(text) : unit ? Number(text) : text
    put(fault)
    try {
      draw(await patch('/v1/tenant/settings', { [name]: value }))
      announce(`${words} saved.`)
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      put(fault, problem(error, 'The setting could not be saved.'))
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
  if (!hasScope()) return html`<output>${userText(choices?.[String(value)] ?? value)}</output>`
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
