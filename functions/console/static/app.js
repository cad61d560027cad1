/** Starts the console: signs in, and shows the page that the address names after its `#`. */

import { ApiError, behind, events, sleep } from './api.js'
import { mark, showSignIn } from './sign_in_page.js'
import { number, span } from './format.js'
import { html, one, put } from './html.js'
import { announce, banner, copy, heading, problem, ready, skeleton } from './components/panel.js'
import { glyph } from './components/tag.js'
import {
  exchangeCredential,
  sendToOpener,
  isOpen,
  hasScope,
  open,
  restoreSession,
  signOut,
  tellTabs,
  onSessionChange,
  currentCaller,
} from './session.js'

/** @typedef {{page: string, parts: string[], query: URLSearchParams}} Route */
/**
 * @typedef {object} Page
 * @property {string} title
 * @property {(main: HTMLElement, context: {route: Route, signal: AbortSignal}) => Promise<void>} show
 */

/** Name, title, module, and path of the icon (16 × 16 px). A phone's bar has the first four. */
const PAGES = /** @type {const} */ ([
  ['overview', 'Overview', 'overview', 'M2 11a6 6 0 0 1 12 0M8 11l3-4'],
  ['authorizers', 'Authorizers', 'authorizers', 'M8 1.5 13.5 4v4c0 3.5-2.5 5.5-5.5 6.5C5 13.5 2.5 11.5 2.5 8V4z'],
  ['revocations', 'Revocations', 'revocations', 'M8 2a6 6 0 1 0 .01 0M4 4l8 8'],
  ['keys', 'Signing keys', 'signing_keys', 'M2 8h4M6 3v10M6 3h3M6 13h3M10 1.5h4v3h-4zM10 11.5h4v3h-4z'],
  ['lists', 'SRL', 'srl', 'M4 1.5h5L12.5 5v9.5H4zM6 8h4M6 11h4'],
  ['api-keys', 'API keys', 'api_keys', 'M5 5a3 3 0 1 0 .01 0M7.5 9 14 9M12 9v3'],
  ['accounts', 'Service accounts', 'service_accounts', 'M8 2a3 3 0 1 0 .01 0M2.5 14.5c0-6 11-6 11 0'],
  [
    'people',
    'People',
    'people',
    'M6 3a2.5 2.5 0 1 0 .01 0M1.5 13.5c0-5.5 9-5.5 9 0M11 4a2 2 0 1 1 .01 4M12 10c2 .4 3 1.6 3 3.5',
  ],
  [
    'webhooks',
    'Webhooks',
    'webhooks',
    'M8 2.5a2.5 2.5 0 0 1 2 4l2.5 4M6.5 7 4 11M5 12.5h5.5M3.5 10.5a2 2 0 1 0 .01 0M12.5 10.5a2 2 0 1 0 .01 0',
  ],
  ['audit', 'Audit log', 'audit_log', 'M2 3h12M2 7h9M2 11h12M2 15h6'],
  ['settings', 'Settings', 'tenant_settings', 'M2 4h12M2 8h12M2 12h12M5 2.5v3M11 6.5v3M7 10.5v3'],
])
const ON_A_PHONE = 4
/** A page without an entry in the navigation. */
const CHANGES = /** @type {const} */ (['changes', 'Changes', 'changes'])
/** Actions of the main buttons: title, page, and permitted scopes. */
const ACTS = /** @type {[string, string, ...Api.Scope[]][]} */ ([
  ['Revoke a warrant…', 'revocations', 'revoker'],
  ['New signing key…', 'keys'],
  ['New API key…', 'api-keys'],
  ['New service account…', 'accounts'],
  ['New webhook…', 'webhooks'],
])
const SEARCH = 'M7 2.5a4.5 4.5 0 1 0 .01 0M10.5 10.5 14 14'
const MORE = 'M2 8h.01M8 8h.01M14 8h.01'
const LINK = 'M6.5 9.5l3-3M7 5l1.5-1.5a2.8 2.8 0 0 1 4 4L11 9M9 11l-1.5 1.5a2.8 2.8 0 0 1-4-4L5 7'
const SCHEME = 'rescind.scheme'
const IS_MAC = navigator.platform.startsWith('Mac')
/** Page for the second letter of `g …`. @type {Record<string, string>} */
const GO = { o: 'overview', a: 'authorizers', r: 'revocations', k: 'keys', l: 'lists' }

const place = /** @type {HTMLElement} */ (document.getElementById('page'))
/** Aborted when the person leaves the current page, and when the person signs out. */
let [leaving, staying] = [new AbortController(), new AbortController()]

paint()
void start()

async function start() {
  const [, kind, credential] = /^#(ticket|signed-in)=(.+)$/.exec(location.hash) ?? []
  // Before any call, so that no record keeps a ticket or a code, for example the browser history.
  if (credential) history.replaceState(null, '', location.pathname + location.search)
  onSessionChange(close, showShell)
  events.addEventListener('waiting', (event) =>
    announce(`Too many requests. Retrying in ${span(/** @type {CustomEvent} */ (event).detail)}.`),
  )
  document.addEventListener('keydown', press)
  // Work of a page that was left ends with the reason of its signal.
  addEventListener('unhandledrejection', (event) => {
    if (event.reason?.name === 'AbortError') event.preventDefault()
  })
  addEventListener('hashchange', () => {
    // A sign-in link was opened in this tab, which already shows the console.
    if (/^#(ticket|signed-in)=/.test(location.hash)) location.reload()
    else if (isOpen()) showPage()
  })
  try {
    if (kind === 'ticket') {
      const form = { grant_type: 'urn:rescind:grant-type:ticket', ticket: credential }
      const accept = async () => {
        await open(await exchangeCredential('/v1/token', form))
        tellTabs()
      }
      return showSignIn(place, showShell, null, null, accept)
    } else if (kind === 'signed-in') {
      if (!(await signedIn(credential))) return
    } else if (!(await restoreSession())) return close()
  } catch (error) {
    return close(null, error)
  }
  showShell()
}

let isGoing = false

/** Handle Ctrl-K or ⌘K, and `g` with the letter of a page, outside of fields. @param {KeyboardEvent} event */
function press(event) {
  const { key, ctrlKey, metaKey, altKey, shiftKey, target } = event
  if ((ctrlKey || metaKey) && !altKey && !shiftKey && key.toLowerCase() === 'k' && isOpen()) {
    event.preventDefault()
    void search()
    return
  }
  const isTyped = /** @type {HTMLElement} */ (target).closest('input, select, textarea, dialog, [popover]')
  const page = isGoing ? GO[key] : null
  isGoing =
    key === 'g' && !ctrlKey && !metaKey && !altKey && !isTyped && isOpen() && !localStorage.getItem('rescind.keys')
  if (page && !isTyped) location.hash = `#/${page}`
}

/**
 * Complete a sign-in with a provider. Returns whether it was for this window. Throws `ApiError`.
 * @param {string} answer of the provider
 */
async function signedIn(answer) {
  const { finish } = await import('./sign_in.js')
  const { secret, flow } = await finish(answer)
  if (flow.again) {
    put(
      place,
      html`<main class="sign-in">
        ${mark()}
        <h1>You are signed in</h1>
        <p>You can close this window.</p>
      </main>`,
    )
    sendToOpener(secret)
    return false
  }
  await open(secret)
  history.replaceState(null, '', location.pathname + location.search + flow.where)
  return true
}

/**
 * Replace the page with the sign-in form.
 * @param {string | null} [why]
 * @param {unknown} [error]
 */
function close(why = null, error = null) {
  leaving.abort()
  staying.abort()
  closeDialog()
  showWaiting(0)
  showSignIn(place, showShell, why, error)
}

/** Draw the frame around each page. */
function showShell() {
  staying.abort()
  staying = new AbortController()
  const toggle = () => {
    const opened = /** @type {boolean} */ (place.querySelector('nav')?.classList.toggle('open'))
    place.querySelector('.more')?.setAttribute('aria-expanded', String(opened))
  }
  const { tenant_name: tenant, name, role, scopes } = currentCaller()
  const permissions = hasScope() ? 'full access' : (role ?? scopes.join(', '))
  put(
    place,
    html` <a
        class="skip"
        href="#main"
        @click=${(/** @type {Event} */ event) => {
          event.preventDefault()
          main().focus()
        }}
        >Skip to content</a
      >
      <div class="shell">
        <nav aria-label="Pages">
          <p class="brand">
            ${mark()}<span>Rescind<small dir="auto">${tenant}</small></span>
          </p>
          ${finder()}
          <div class="first">${PAGES.slice(0, ON_A_PHONE).map(item)}</div>
          <button type="button" class="more" aria-expanded="false" @click=${toggle}>
            ${glyph(MORE)}<span>More</span>
          </button>
          <div class="rest">
            ${finder()}${PAGES.slice(ON_A_PHONE).map(item)}
            <div class="who">
              <i aria-hidden="true">${[...name][0]?.toUpperCase()}</i>
              <p>
                <span class="unseen">Signed in as </span><bdi>${name}</bdi><span class="unseen">, </span
                ><small class="soft">${permissions}</small>
              </p>
              <div class="actions"><button type="button" @click=${leave}>Sign out</button>${scheme()}</div>
            </div>
          </div>
        </nav>
        <div class="paper">
          <header class="top"></header>
          <div id="notes"></div>
          <main id="main" tabindex="-1"></main>
        </div>
      </div>`,
  )
  void keepFrame(staying.signal)
  // Load the palette early, so that Ctrl-K does not wait for the script.
  void showPage().then(() => import('./command_palette.js'))
}

const item = (/** @type {typeof PAGES[number]} */ [name, words, , path]) =>
  html` <a href=${`#/${name}`} data-page=${name} title=${words}
    >${glyph(path)}<span>${words}</span><b class="waits"></b
  ></a>`
const finder = () =>
  html`<button type="button" class="finder" title="Search" aria-keyshortcuts="Control+K Meta+K" @click=${search}>
    ${glyph(SEARCH)}<span>Search…</span><kbd aria-hidden="true">${IS_MAC ? '⌘K' : 'Ctrl K'}</kbd>
  </button>`

/** Return the selector of the colour scheme: system, light or dark. */
function scheme() {
  const choose = (/** @type {Event} */ { target }) => {
    const { value } = /** @type {HTMLSelectElement} */ (target)
    if (value) localStorage.setItem(SCHEME, value)
    else localStorage.removeItem(SCHEME)
    paint()
  }
  const chosen = localStorage.getItem(SCHEME) ?? ''
  return html`<select aria-label="Theme" title="Theme" @change=${choose}>
    ${[
      ['', 'System'],
      ['light', 'Light'],
      ['dark', 'Dark'],
    ].map(([value, words]) => html`<option value=${value} ?selected=${value === chosen}>${words}</option>`)}
  </select>`
}

function paint() {
  document.documentElement.style.colorScheme = localStorage.getItem(SCHEME) ?? ''
}

/** Open the palette. */
async function search() {
  if (!isOpen() || document.querySelector('dialog[open]')) return
  const { show } = await import('./command_palette.js')
  const go = (/** @type {string} */ hash) => void (location.hash = hash)
  const paths = Object.fromEntries(PAGES.map(([name, , , path]) => [name, path]))
  const acts = ACTS.filter(([, , ...scopes]) => hasScope(...scopes))
  const [pages, group] = ['Pages', 'Actions']
  const { revocations: path = '' } = paths
  show({
    paths,
    choices: [
      ...PAGES.map(([name, title, , path]) => ({ group: pages, title, path, run: () => go(`#/${name}`) })),
      { group: pages, title: CHANGES[1], path, run: () => go(`#/${CHANGES[0]}`) },
      ...acts.map(([title, page]) => ({ group, title, path: paths[page] ?? '', run: () => act(page) })),
      { group, title: 'Revoke many warrants', path, run: () => go('#/revocations/many') },
      { group, title: 'Copy link to this page', path: LINK, run: () => copy(location.href) },
      { group, title: 'Sign out', path: 'M6 2.5H3v11h3M7 8h7M11 5l3 3-3 3', run: leave },
    ],
  })
}

/** Go to a page, and press its main button. @param {string} page */
async function act(page) {
  if (route().page !== page || route().parts.length) location.hash = `#/${page}`
  for (let tries = 0; tries < 100; tries++) {
    const button = /** @type {HTMLElement | null} */ (
      document.body.dataset.ready === page ? main().querySelector('.head button') : null
    )
    if (button) return button.click()
    await sleep(0.1)
  }
}

/**
 * Show on each page the age of its data, and the number of authorizers that may admit revoked warrants.
 * @param {AbortSignal} signal
 */
async function keepFrame(signal) {
  const [{ subscribe, readCached }, { showBar }] = await Promise.all([
    import('./store.js'),
    import('./components/keyboard.js'),
  ])
  if (signal.aborted) return
  if (hasScope('read-only', 'auditor'))
    subscribe(() => showWaiting(readCached('/v1/authorizers/summary', 5).data?.unknown ?? 0), signal)
  showBar(/** @type {HTMLElement} */ (place.querySelector('.top')), signal)
}

/** @param {number} waiting */
function showWaiting(waiting) {
  const link = place.querySelector('a[data-page=authorizers]')
  const badge = link?.querySelector('.waits')
  if (badge)
    put(badge, waiting ? html`${number(waiting)}<span class="unseen"> may accept revoked warrants</span>` : null)
  const title = document.title.replace(/^\(\d[\d,]*\) /, '')
  const newTitle = waiting ? `(${number(waiting)}) ${title}` : title
  if (document.title !== newTitle) document.title = newTitle
  const icon = /** @type {HTMLLinkElement} */ (document.querySelector('link[rel=icon]'))
  const address = new URL(waiting ? 'mark-waits.svg' : 'mark.svg', import.meta.url).href
  if (icon.href !== address) icon.href = address
}

/** Close dialogs, which belong to the page that opened them. */
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
    return close(
      'You are signed out in this browser. The service did not respond, so the session stays valid until it expires.',
    )
  }
  close('You are signed out.')
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
  const target = route()
  const known = [...PAGES, CHANGES].find(([name]) => name === target.page)
  delete document.body.dataset.ready
  document.body.dataset.page = target.page
  place.querySelector('nav')?.classList.remove('open')
  for (const link of place.querySelectorAll('nav a')) {
    link.toggleAttribute('aria-current', false)
    if (link.getAttribute('data-page') === (target.page === 'changes' ? 'revocations' : target.page))
      link.setAttribute('aria-current', 'page')
  }
  put(/** @type {HTMLElement} */ (document.getElementById('notes')), notes())
  // A separate element for each page, so that late output of an earlier page stays invisible.
  const room = /** @type {HTMLElement} */ (one(html`<div class="room"></div>`))
  put(main(), room)
  if (!known) {
    put(
      room,
      html`<h1 tabindex="-1">Page not found</h1>
        <p><a href="#/overview">Go to the overview</a></p>`,
    )
    return ready()
  }
  put(room, heading(known[1]), html`<section class="panel">${skeleton(6)}</section>`)
  try {
    /** @type {Page} */
    const page = await import(`./pages/${known[2]}.js`).catch(renewed)
    if (signal.aborted) return
    document.title = `${page.title} – ${currentCaller().tenant_name} – Rescind`
    const shown = page.show(room, { route: target, signal })
    room.querySelector('h1')?.focus({ preventScroll: true })
    scrollTo(0, 0)
    await shown
  } catch (error) {
    if (signal.aborted) return
    const failed = 'The page could not be loaded.'
    const advice = html`<strong>${failed}</strong> See the browser's console for the error, or use the command line:
      <code>rescind --help</code>.`
    const notice = error instanceof ApiError ? problem(error, failed, showPage) : banner('revoked', advice)
    put(room, heading(known[1]), notice)
    ready()
    if (!(error instanceof ApiError)) throw error
  }
}

/**
 * Report that the server has a newer console. If the server does not respond, keep the session.
 * @param {unknown} error
 */
async function renewed(error) {
  // Other errors are faults of the page.
  if (!(error instanceof TypeError)) throw error
  const answer = await fetch(location.pathname, {
    method: 'HEAD',
    cache: 'no-store',
    headers: { Accept: 'text/html' },
  }).catch(() => null)
  if (!answer?.ok) throw new ApiError(answer?.status ?? 0, 'no_answer', 'The service cannot serve this page now.', null)
  throw new ApiError(410, 'renewed', 'The console was updated. Reload the page.', null)
}

/** Return the banners for all pages: a read-only key, and a wrong clock. */
function notes() {
  const apart = behind()
  return [
    !hasScope('revoker', 'signer') && banner('info', html`You have read-only access.`),
    Math.abs(apart) > 30 &&
      banner(
        'wait',
        `This computer's clock is ${span(Math.abs(apart))} ${apart > 0 ? 'behind' : 'ahead of'} the service. ` +
          "Ages use the service's clock.",
      ),
  ]
}
