/** Steps for a tenant without revocations, with their progress. Creates the first key of an authorizer. */

import { all, ApiError, get, post } from '../api.js'
import { html, one, put } from '../html.js'
import { subscribe, readCached } from '../store.js'
import { ask, copyButton, exactInput, field } from '../components/dialog.js'
import { button, when } from '../components/panel.js'
import { icon, tag } from '../components/tag.js'
import { hasScope, currentCaller } from '../session.js'

const FLEET = '/v1/authorizers?include=enforcement'

/** @param {Element} place @param {AbortSignal} signal */
export function firstSteps(place, signal) {
  const step = (/** @type {string} */ what, /** @type {boolean} */ done, /** @type {unknown} */ action) =>
    html`<li><span>${what}</span>${done ? tag('force', 'done') : action}</li>`
  const some = (/** @type {string} */ path) => readCached(path, 2).data?.total > 0
  subscribe(() => {
    put(
      place,
      html`<section class="panel">
        <h2>Get started in three steps</h2>
        <ol class="steps">
          ${step(
            'Create a root key. The issuer and notary keys below it sign warrants.',
            some('/v1/keys?limit=1'),
            html`<a class="button" href="#/keys">Create root key</a>`,
          )}
          ${step(
            'Connect an authorizer. It accepts or refuses warrants, and reports its feed entry.',
            some('/v1/authorizers?limit=1'),
            hasScope() && button('Connect an authorizer…', connect),
          )}
          ${step(
            'Revoke a warrant and follow its propagation.',
            false,
            html`<a class="button" href="#/revocations">Revoke a warrant</a>`,
          )}
        </ol>
      </section>`,
    )
  }, signal)
}

/** Create the key of an authorizer's account, show the command that starts the authorizer, and wait for its report. */
export async function connect() {
  const { endField } = await import('./api_keys.js')
  const created = await ask({
    title: 'Connect an authorizer',
    action: 'Create key',
    failed: 'The key could not be created.',
    body: [
      html`<p>
        An authorizer is a program that accepts or refuses warrants. It gets its own service account and API key, which
        do not depend on your session.
      </p>`,
      field(
        'Name',
        exactInput('name', { maxlength: 63, pattern: '[a-z0-9][a-z0-9\\-]*', value: 'gateway' }),
        'Lowercase letters, digits and dashes. The audit log shows this name.',
      ),
      endField('Key expires after'),
    ],
    run: async (form, headers) => {
      const name = String(form.get('name'))
      const account = await accountOf(name, headers)
      const expiry = form.get('ends') || null
      const body = { name, scopes: ['authorizer'], service_account_id: account.id, expires_at: expiry }
      const key = /** @type {Api.CreatedApiKey} */ (await post('/v1/api-keys', body, { headers }))
      // The pin is null if the service has no trust document.
      const { readDocuments } = await import('../vendor/rescind-trust.js')
      const documents = await get('/v1/trust', { raw: true }).catch(() => null)
      const pin = documents && readDocuments(new Uint8Array(documents)).at(-1)?.roots.pin
      return { key, account, pin: pin ?? null }
    },
  })
  if (created) await start(created)
}

/**
 * Return the account with this name. Creates it if it is missing.
 * @param {string} name
 * @param {Record<string, string>} headers
 */
async function accountOf(name, headers) {
  try {
    return /** @type {Api.ServiceAccount} */ (await post('/v1/service-accounts', { name }, { headers }))
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 409) throw error
    const accounts = /** @type {Api.ServiceAccount[]} */ (await all('/v1/service-accounts', 'service_accounts'))
    const known = accounts.find((each) => each.name === name)
    if (!known) throw error
    return known
  }
}

/** @param {{key: Api.CreatedApiKey, account: Api.ServiceAccount, pin: string | null}} created */
async function start({ key, account, pin: roots }) {
  const command = commands(key, roots)
  const state = one(html`<p role="status"></p>`)
  const open = new AbortController()
  subscribe(() => {
    const reported = (readCached(FLEET, 2, 'authorizers').data ?? []).find(
      (/** @type {Api.Authorizer} */ { owner }) => owner === account.email,
    )
    const { last_used_at: used } = readCached(`/v1/api-keys/${key.id}`, 2).data ?? {}
    put(
      state,
      reported
        ? html`${icon('force')} <bdi>${reported.name}</bdi> reported entry ${reported.sequence ?? 'none'},
            ${when(reported.last_seen_at)}. <a href=${`#/authorizers/${reported.id}`}>View</a>`
        : used
          ? html`${icon('wait')} Key used ${when(used)}. Waiting for the first heartbeat …`
          : html`${icon('wait')} Waiting for the first request with this key …`,
    )
  }, open.signal)
  await ask({
    title: 'Start the authorizer',
    action: 'Done',
    run: async () => true,
    firm: true,
    wide: true,
    body: html`<p>Run these commands on the host of the authorizer. The key is not shown again.</p>
      <pre class="secret">${command}</pre>
      ${copyButton(command)}
      <p class="soft">
        The pin comes from the service. Compare it with the output of <code>rescind trust show</code> on a machine that
        you trust. Your own programs can use the same settings.
      </p>
      ${state}`,
  })
  open.abort()
}

/**
 * Return the commands that start an authorizer with this key, with the settings in docs/authorizers.md.
 * @param {Api.CreatedApiKey} key
 * @param {string | null} roots
 */
function commands({ name, key }, roots) {
  const url = (location.origin + location.pathname).replace(/\/$/, '')
  const isBare = location.protocol === 'http:' && !/^(localhost|127\.|\[::1)/.test(location.host)
  return [
    'pip install rescind_authorizer-*.whl',
    `export RESCIND_URL=${url}`,
    `export RESCIND_API_KEY=${key}`,
    `export RESCIND_TENANT=${currentCaller().tenant_id}`,
    `export RESCIND_TRUST_PIN=${roots ?? '…'}`,
    `export RESCIND_STATE_DIR=${name}.state`,
    'python -m rescind_authorizer watch "$RESCIND_URL" --tenant "$RESCIND_TENANT" \\\n' +
      `  --trust-pin "$RESCIND_TRUST_PIN" --state-dir "$RESCIND_STATE_DIR" --name ${name} --report` +
      (isBare ? ' --allow-http' : ''),
  ].join('\n')
}
