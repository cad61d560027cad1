/**
 * Signs in with an identity provider, by a code with PKCE that this page requests and the service redeems
 * (docs/adr/25-console.md).
 *
 * It is loaded only if the tenant has a provider.
 */

import { ApiError } from './api.js'
import { concat, sha256, toBase64 } from './bytes.js'
import { withProgress, keyForm } from './sign_in_page.js'
import { html, one } from './html.js'
import { exchangeCredential, rememberTenant, tabs, tenant } from './session.js'

/** @typedef {import('./session.js').Provider} Provider */
/**
 * @typedef {object} Flow a sign-in in progress
 * @property {string} audience
 * @property {string} issuer
 * @property {string} redirect_uri
 * @property {string} code_verifier
 * @property {string} nonce
 * @property {string} tenant
 * @property {string} where
 * @property {boolean} again
 */
/** @typedef {{provider: Provider, address: string, begin: () => void, forget: () => void}} Way */

// Prefix before the state of a flow, which is random.
const FLOW = 'rescind.sign-in.'

/** @param {Uint8Array} bytes */
const base64url = (bytes) => toBase64(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)))

/**
 * Return a sign-in: `begin` stores the values for the comparison, and `address` is the page of the provider.
 * @param {Provider} provider
 * @param {{again?: boolean, fresh?: boolean}} [options] `again`: in another window; `fresh`: the provider must
 *   reauthenticate the person
 * @returns {Promise<Way>}
 */
async function prepare(provider, { again = false, fresh = false } = {}) {
  const state = random()
  /** @type {Flow} */
  const flow = {
    audience: provider.id,
    issuer: provider.issuer,
    code_verifier: random(),
    nonce: random(),
    again,
    redirect_uri: new URL(`console/signed-in/${provider.id}`, location.origin + location.pathname).href,
    tenant: tenant(),
    where: location.hash,
  }
  const address = new URL(provider.authorization_endpoint ?? '')
  if (address.protocol !== 'https:') throw new TypeError('The authorization endpoint must use https.')
  const parameters = {
    response_type: 'code',
    client_id: provider.client_id ?? '',
    redirect_uri: flow.redirect_uri,
    scope: 'openid email profile',
    state,
    nonce: flow.nonce,
    code_challenge_method: 'S256',
    code_challenge: base64url(await sha256(concat(flow.code_verifier))),
    // With max_age, the provider returns auth_time (OpenID Connect Core, 2), the evidence of a fresh sign-in.
    ...(fresh ? { prompt: 'login', max_age: '0' } : { max_age: '43200' }),
  }
  for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value)
  // A separate window cannot read the storage of this tab.
  const storage = again ? localStorage : sessionStorage
  const begin = () => storage.setItem(FLOW + state, JSON.stringify(flow))
  return { provider, address: address.href, begin, forget: () => storage.removeItem(FLOW + state) }
}

/**
 * Return a button for each provider.
 * @param {Provider[]} providers
 */
export const buttons = async (providers) =>
  (await Promise.all(providers.map((each) => prepare(each)))).map((way) =>
    button(way, () => location.assign(way.address)),
  )

/**
 * @param {Way} way
 * @param {() => void} go
 */
const button = (way, go) =>
  html`<button type="button" class="main" @click=${() => (way.begin(), go())}>
    <span>Continue with <bdi>${way.provider.name}</bdi></span>
  </button>`

/**
 * Redeem a provider's answer for the secret of a session.
 *
 * Throws `ApiError`, also if this page did not begin the sign-in, or if a different provider answers.
 * @param {string} answer the part after `#signed-in=`: the provider's identifier, and its query
 * @returns {Promise<{secret: string, flow: Flow}>}
 */
export async function finish(answer) {
  const [audience, query = ''] = answer.split('?')
  const response = new URLSearchParams(query)
  // A flow is used once.
  const name = FLOW + (response.get('state') ?? '')
  /** @type {Flow | null} */
  const flow = JSON.parse(sessionStorage.getItem(name) ?? localStorage.getItem(name) ?? 'null')
  sessionStorage.removeItem(name)
  localStorage.removeItem(name)
  // Even after a refusal, so that the sign-in form offers the same providers.
  if (flow) rememberTenant(flow.tenant)
  if (!flow || flow.audience !== audience || (response.get('iss') ?? flow.issuer) !== flow.issuer) {
    throw new ApiError(400, 'not_started_here', 'This sign-in was not started in this tab. Sign in again.')
  }
  if (response.has('error'))
    throw new ApiError(
      400,
      'provider_refused',
      `The identity provider rejected the sign-in: ${response.get('error_description') ?? response.get('error')}.`,
    )
  const { code_verifier, nonce, redirect_uri } = flow
  const secret = await exchangeCredential('/v1/sign-in/code', {
    grant_type: 'authorization_code',
    audience,
    code: response.get('code') ?? '',
    code_verifier,
    nonce,
    redirect_uri,
  })
  return { secret, flow }
}

/**
 * Request a reauthentication over the unchanged page.
 *
 * Resolves with whether `enter` accepted a secret; false if the person cancels.
 * @param {Provider[]} providers
 * @param {{title: string, why: string, fresh: boolean, withKey: boolean}} words `fresh`: the session is valid, but too
 *   old for the action; `withKey`: an API key is sufficient
 * @param {(secret: string) => Promise<void>} enter throws `ApiError`
 * @param {(message: any) => string | null} handed returns the secret that a message of another tab contains for this
 *   tab
 * @returns {Promise<boolean>}
 */
export async function again(providers, { title, why, fresh, withKey }, enter, handed) {
  const ways = await Promise.all(providers.map((each) => prepare(each, { again: true, fresh })))
  return new Promise((resolve) => {
    let isIn = false
    const status = one(html`<div class="body"></div>`)
    const take = withProgress(status, async (secret) => {
      await enter(secret)
      isIn = true
      dialog.close()
    })
    const receive = (/** @type {MessageEvent} */ { data }) => {
      const secret = handed(data)
      if (secret) void take(secret)
    }
    const end = () => {
      tabs.removeEventListener('message', receive)
      for (const way of ways) way.forget()
      dialog.remove()
      resolve(isIn)
    }
    const stay = (/** @type {Event} */ event) => fresh || event.preventDefault()
    const popup = (/** @type {Way} */ way) =>
      button(way, () => open(way.address, '_blank', 'popup,width=520,height=720'))
    /** @type {HTMLDialogElement} */
    const dialog = one(
      html`<dialog
        class="again"
        aria-labelledby="again-title"
        closedby=${fresh ? null : 'none'}
        @cancel=${stay}
        @close=${end}
      >
        <div class="body">
          <h2 id="again-title">${title}</h2>
          <p>${why}</p>
          ${status} ${ways.length > 0 && html`<div class="providers body">${ways.map(popup)}</div>`}
          ${withKey && keyForm(take)}
          <div class="actions">
            <button type="button" @click=${() => dialog.close()}>${fresh ? 'Cancel' : 'Discard and sign out'}</button>
          </div>
        </div>
      </dialog>`,
    )
    tabs.addEventListener('message', receive)
    document.body.append(dialog)
    dialog.showModal()
  })
}
