/** Starts the console: signs in, and shows the page that the address names after its `#`. */

import { ApiError, behind, events } from './api.js'
import { span } from './format.js'
import { html, one, put, svg } from './html.js'
import { advice, announce, banner, heading, problem, ready } from './parts/panel.js'
import { granted, handOver, isOpen, may, offered, open, remember, reopen, signOut, watch, who } from './session.js'

/** @typedef {{page: string, parts: string[], query: URLSearchParams}} Route */
/** @typedef {{title: string, show: (main: HTMLElement, context: {route: Route, signal: AbortSignal}) => Promise<void>}} Page */

/** Name, words, module, and the path of its picture in a square of 16 px. The first four are the bar of a phone. */
const PAGES = /** @type {const} */ ([
  ['overview', 'Overview', 'overview', 'M2 11a6 6 0 0 1 12 0M8 11l3-4'],
  ['authorizers', 'Authorizers', 'authorizers', 'M8 1.5 13.5 4v4c0 3.5-2.5 5.5-5.5 6.5C5 13.5 2.5 11.5 2.5 8V4z'],
  ['revocations', 'Revocations', 'revocations', 'M8 2a6 6 0 1 0 .01 0M4 4l8 8'],
  ['keys', 'Signing keys', 'signing_keys', 'M2 8h4M6 3v10M6 3h3M6 13h3M10 1.5h4v3h-4zM10 11.5h4v3h-4z'],
  ['lists', 'Lists', 'srl', 'M4 1.5h5L12.5 5v9.5H4zM6 8h4M6 11h4'],
  ['api-keys', 'API keys', 'api_keys', 'M5 5a3 3 0 1 0 .01 0M7.5 9 14 9M12 9v3'],
  ['accounts', 'Accounts', 'service_accounts', 'M8 2a3 3 0 1 0 .01 0M2.5 14.5c0-6 11-6 11 0'],
  ['webhooks', 'Webhooks', 'webhooks', 'M8 2.5a2.5 2.5 0 0 1 2 4l2.5 4M6.5 7 4 11M5 12.5h5.5M3.5 10.5a2 2 0 1 0 .01 0M12.5 10.5a2 2 0 1 0 .01 0'],
  ['audit', 'Audit log', 'audit_log', 'M2 3h12M2 7h9M2 11h12M2 15h6'],
  ['settings', 'Settings', 'tenant_settings', 'M2 4h12M2 8h12M2 12h12M5 2.5v3M11 6.5v3M7 10.5v3'],
])
/** Pages to which others lead. */
const BESIDE = /** @type {const} */ ([['changes', 'Changes', 'changes']])
const ON_A_PHONE = 4

const place = /** @type {HTMLElement} */ (document.getElementById('page'))
/** Aborted when the person leaves the page that is shown. */
let leaving = new AbortController()

await start()

async function start() {
  const [, kind, given] = /^#(ticket|signed-in)=(.+)$/.exec(location.hash) ?? []
  // Before any call: nothing may keep a ticket or a code, such as the history of the browser.
  if (given) history.replaceState(null, '', location.pathname + location.search)
  watch((why) => showDoor(why), showShell)
  events.addEventListener('waiting', (event) => announce(`Too many requests; going on in ${span(/** @type {CustomEvent} */ (event).detail)}.`))
  addEventListener('hashchange', () => {
    // A link that was opened in this tab, which has the page already.
    if (/^#(ticket|signed-in)=/.test(location.hash)) location.reload()
    else if (isOpen()) showPage()
  })
  try {
    if (kind === 'ticket') await open(await granted({ grant_type: 'urn:rescind:grant-type:ticket', ticket: given }))
    else if (kind === 'signed-in') {
      if (!await signedIn(given)) return
    } else if (!await reopen()) return showDoor()
  } catch (error) {
    return showDoor(null, error)
  }
  showShell()
}

/**
 * End a sign-in with a provider; whether it was for this window. Throws `ApiError`.
 * @param {string} answer of the provider
 */
async function signedIn(answer) {
  const { finish } = await import('./sign_in.js')
  const { secret, flow } = await finish(answer)
  if (flow.again) {
    put(place, html`<main class="door">${mark()}<h1>You are signed in again</h1><p>Close this window, and go on in the other one.</p></main>`)
    handOver(secret)
    return false
  }
  await open(secret)
  remember(flow.tenant)
  history.replaceState(null, '', location.pathname + location.search + flow.where)
  return true
}

/** The buttons of the tenant's identity providers, if it has some. @param {Element} room */
async function showProviders(room) {
  try {
    const providers = await offered()
    if (!providers.length || !crypto.subtle) return
    const { buttons } = await import('./sign_in.js')
    put(room, await buttons(providers), html`<p class="or">or with an API key</p>`)
    const field = place.querySelector('input')
    if (field === document.activeElement && !field?.value) room.querySelector('button')?.focus()
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    if (error.status !== 404) put(room, banner('wait', `How else you can sign in could not be read. ${advice(error)}`))
  }
}

/**
 * The form to sign in.
 * @param {string | null} [why] the last session ended
 * @param {unknown} [error]
 */
function showDoor(why = null, error = null) {
  leaving.abort()
  closeDialog()
  document.title = 'Sign in – Rescind'
  document.body.dataset.page = 'door'
  const said = one(html`<div class="body">${why && banner('wait', why)}</div>`)
  const providers = one(html`<div class="providers"></div>`)
  const button = /** @type {HTMLButtonElement} */ (one(html`<button class="main">Sign in</button>`))
  const enter = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    const form = /** @type {HTMLFormElement} */ (event.target)
    const { value } = /** @type {HTMLInputElement} */ (form.elements.namedItem('key'))
    form.reset()
    button.disabled = true
    put(said, html`<p role="status">The service is asked …</p>`)
    try {
      await open(value.trim())
      showShell()
    } catch (error_) {
      sayRefused(said, error_)
      button.disabled = false
    }
  }
  put(place, html`
    <main class="door">
      ${mark()}<h1 tabindex="-1">Sign in to Rescind</h1>
      ${said}
      ${providers}
      <form @submit=${enter}>
        <label class="field"><span>API key</span><input name="key" type="password" autocomplete="off" spellcheck="false" required></label>
        ${button}
      </form>
      <p class="soft">For operators, <code>rescind console</code> prints an address that needs no key.</p>
    </main>`)
  if (error) sayRefused(said, error)
  place.querySelector('input')?.focus()
  ready()
  showProviders(providers)
}

/**
 * @param {Element} said
 * @param {unknown} error
 */
function sayRefused(said, error) {
  if (!(error instanceof ApiError)) throw error
  const refused = error.status === 401
    ? 'The service does not know this key, or it has ended.'
    : error.status === 403 && error.message
  put(said, banner('revoked', html`<strong>You are not signed in.</strong> ${refused || advice(error)}`))
}

/** The frame around each page. */
function showShell() {
  const item = (/** @type {typeof PAGES[number]} */ [name, words, , path]) => html`
    <a href=${`#/${name}`} data-page=${name} title=${words}><svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">${svg`<path d=${path}/>`}</svg><span>${words}</span></a>`
  const toggle = () => {
    const opened = /** @type {boolean} */ (place.querySelector('nav')?.classList.toggle('open'))
    place.querySelector('.more')?.setAttribute('aria-expanded', String(opened))
  }
  put(place, html`
    <a class="skip" href="#main" @click=${(/** @type {Event} */ event) => { event.preventDefault(); main().focus() }}>Skip to the page</a>
    <div class="shell">
      <nav aria-label="Pages">
        <p class="brand">${mark()}<span>Rescind<small dir="auto">${who().tenant_name}</small></span></p>
        <div class="first">${PAGES.slice(0, ON_A_PHONE).map(item)}</div>
        <button type="button" class="more" aria-expanded="false" @click=${toggle}><svg viewBox="0 0 16 16" width="18" height="18" aria-hidden="true"><path d="M2 8h.01M8 8h.01M14 8h.01"/></svg><span>More</span></button>
        <div class="rest">${PAGES.slice(ON_A_PHONE).map(item)}
          <div class="who"><span>Signed in as <bdi>${who().name}</bdi>, ${may() ? `${who().person_id ? 'who' : 'which'} may do everything` : who().scopes.join(', ')}.</span><button type="button" @click=${leave}>Sign out</button></div>
        </div>
      </nav>
      <div class="paper"><div id="notes"></div><main id="main" tabindex="-1"></main></div>
    </div>`)
  showPage()
}

/** Dialogs belong to the page on which they were opened. */
function closeDialog() {
  for (const each of document.querySelectorAll('dialog')) each.close()
}

function main() {
  return /** @type {HTMLElement} */ (document.getElementById('main'))
}

async function leave() {
  try {
    await signOut()
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    return showDoor('You are signed out here. The service could not be told: the session ends by itself.')
  }
  showDoor('You are signed out.')
}

/** @returns {Route} */
function route() {
  const [path = '', search = ''] = location.hash.replace(/^#\/?/, '').split('?')
  const [page, ...parts] = path.split('/').map(decodeURIComponent)
  return { page: page || 'overview', parts, query: new URLSearchParams(search) }
}

/** Show the page that the address names. */
async function showPage() {
  leaving.abort()
  leaving = new AbortController()
  const { signal } = leaving
  closeDialog()
  const wanted = route()
  const known = [...PAGES, ...BESIDE].find(([name]) => name === wanted.page)
  delete document.body.dataset.ready
  document.body.dataset.page = wanted.page
  place.querySelector('nav')?.classList.remove('open')
  for (const link of place.querySelectorAll('nav a')) {
    link.toggleAttribute('aria-current', false)
    if (link.getAttribute('data-page') === (wanted.page === 'changes' ? 'revocations' : wanted.page)) link.setAttribute('aria-current', 'page')
  }
  put(/** @type {HTMLElement} */ (document.getElementById('notes')), notes())
  // A page of its own, so that what an earlier one still draws is nowhere to be seen.
  const room = /** @type {HTMLElement} */ (one(html`<div class="room"></div>`))
  put(main(), room)
  if (!known) {
    put(room, html`<h1 tabindex="-1">There is no such page</h1><p><a href="#/overview">Go to the overview</a></p>`)
    return ready()
  }
  try {
    /** @type {Page} */
    const page = await import(`./pages/${known[2]}.js`).catch(renewed)
    if (signal.aborted) return
    document.title = `${page.title} – ${who().tenant_name} – Rescind`
    const shown = page.show(room, { route: wanted, signal })
    room.querySelector('h1')?.focus({ preventScroll: true })
    scrollTo(0, 0)
    await shown
  } catch (error) {
    if (signal.aborted) return
    const failed = 'The page could not be shown.'
    if (error instanceof ApiError) put(room, heading(known[1]), problem(error, failed, showPage))
    else put(room, heading(known[1]), banner('revoked', html`<strong>${failed}</strong> It has a fault; what it says is in the browser's console. The command line does the same: <code>rescind --help</code>.`))
    ready()
    if (!(error instanceof ApiError)) throw error
  }
}

/** A page of an older console than the server has now. */
function renewed() {
  throw new ApiError(410, 'renewed', 'The console has been renewed, or the server does not answer. Load the page again.', null)
}

/** What holds for each page: a key that only reads, a clock that is wrong. */
function notes() {
  const apart = behind()
  return [
    !may('revoker', 'signer') && banner('info', html`You are looking with a key that may only read.`),
    Math.abs(apart) > 30 && banner('wait', `This computer's clock is ${span(Math.abs(apart))} ${apart > 0 ? 'behind' : 'ahead of'} the service. Ages are reckoned by the service's clock.`),
  ]
}

function mark() {
  return html`<svg class="mark" viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><path d="M11 25V8h7a4.5 4.5 0 0 1 0 9h-7m6 0 5 8"/><path class="cut" d="M6 26 27 6"/></svg>`
}
