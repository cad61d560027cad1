/** The sign-in page. */

import { ApiError } from './api.js'
import { html, one, put } from './html.js'
import { advice, banner, ready } from './components/panel.js'
import { offered, open } from './session.js'

export const mark = () =>
  html`<svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true">
    <path d="M11 25V8h7a4.5 4.5 0 0 1 0 9h-7m6 0 5 8" />
    <path class="cut" d="M6 26 27 6" />
  </svg>`

/**
 * Return the form for an API key. The input is cleared before the key is used.
 * @param {(secret: string) => Promise<void>} enter
 */
export function keyForm(enter) {
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    const form = /** @type {HTMLFormElement} */ (event.target)
    const button = /** @type {HTMLButtonElement} */ (form.querySelector('button'))
    const secret = String(new FormData(form).get('key')).trim()
    form.reset()
    button.disabled = true
    await enter(secret)
    button.disabled = false
  }
  return html`<form @submit=${submit}>
    <label class="field"
      ><span>API key</span><input name="key" type="password" autocomplete="off" spellcheck="false" required
    /></label>
    <button class="main">Sign in</button>
  </form>`
}

/**
 * Return a function that accepts a secret and shows the progress in `status`.
 * @param {Element} status
 * @param {(secret: string) => Promise<void>} enter throws `ApiError`
 */
export const withProgress = (status, enter) => async (/** @type {string} */ secret) => {
  put(status, html`<p role="status">Signing in …</p>`)
  try {
    await enter(secret)
  } catch (error) {
    put(status, failureBanner(error))
  }
}

/** Return the reason why the sign-in failed. Rethrows errors other than failed calls. @param {unknown} error */
function failureBanner(error) {
  if (!(error instanceof ApiError)) throw error
  const words = error.status === 401 ? 'This API key is invalid or has expired.' : advice(error)
  return banner('revoked', html`<strong>Sign-in failed.</strong> ${words}`)
}

/**
 * Show the sign-in form in place of the page.
 * @param {HTMLElement} place
 * @param {() => void} opened
 * @param {string | null} [why] the last session ended
 * @param {unknown} [error]
 * @param {(() => Promise<void>) | null} [accept] uses a ticket after confirmation, because the ticket may belong to
 *   another person
 */
export function showSignIn(place, opened, why = null, error = null, accept = null) {
  document.title = 'Sign in – Rescind'
  document.body.dataset.page = 'sign-in'
  const status = one(html`<div class="body"></div>`)
  const providers = one(html`<div class="providers body"></div>`)
  const enter = withProgress(status, async (secret) => {
    await open(secret)
    opened()
  })
  const confirm = withProgress(status, async () => {
    await accept?.()
    opened()
  })
  const asking = html`<p>This link signs you in as an operator. Continue only if you created it yourself.</p>
    <button type="button" class="main" @click=${() => confirm('')}>Continue with the link</button>`
  put(
    place,
    html`<main class="sign-in">
      ${mark()}
      <h1 tabindex="-1">Sign in to Rescind</h1>
      ${status}${providers}${keyForm(enter)}
      <p class="soft">Operators: run <code>rescind console</code> to get a sign-in link.</p>
    </main>`,
  )
  put(status, error ? failureBanner(error) : accept ? asking : why && banner('wait', why))
  place.querySelector(accept ? 'button' : 'input')?.focus()
  ready()
  void showProviders(place, providers)
}

/** Show the buttons of the tenant's identity providers, if any. @param {Element} place @param {Element} room */
async function showProviders(place, room) {
  try {
    const list = await offered()
    if (!list.length || !crypto.subtle) return
    const { buttons } = await import('./sign_in.js')
    put(room, await buttons(list), html`<p class="or">or with an API key</p>`)
    const field = place.querySelector('input')
    if (field === document.activeElement && !field?.value) room.querySelector('button')?.focus()
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    if (error.status !== 404) put(room, banner('wait', `The identity providers could not be loaded. ${advice(error)}`))
  }
}
