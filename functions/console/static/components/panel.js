/** Parts of all pages: headings, banners, facts, times, names, and failures with advice. */

import { ApiError, now } from '../api.js'
import { exactly, nameOf, present, span, formatTime } from '../format.js'
import { html, one, put } from '../html.js'
import { icon } from './tag.js'

/** @typedef {import('./tag.js').State} State */

/** Visible letters of a name, and how many of them from its end. A warrant identifier is never cut. */
const [NAME, ENDING] = [72, 16]

/**
 * Return a place for a picture, which is drawn again for each width and never scaled.
 * @param {(width: number) => unknown} draw returns an SVG element for a width in CSS pixels
 * @returns {{element: HTMLElement, redraw: () => void}}
 */
export function picture(draw) {
  const element = one(html`<figure></figure>`)
  let drawn = 0
  const redraw = () => {
    drawn = element.clientWidth
    if (drawn) put(element, draw(drawn))
  }
  new ResizeObserver(() => element.clientWidth !== drawn && redraw()).observe(element)
  return { element, redraw }
}

/** Return a placeholder of grey boxes. @param {number} lines */
export const skeleton = (lines) =>
  html`<div class="skeleton" aria-hidden="true">${Array.from({ length: lines }, () => html`<i></i>`)}</div>`

/**
 * Return a banner with the failure and advice. Rethrows errors other than failed calls.
 * @param {unknown} error
 * @param {string} failed a sentence
 * @param {(() => unknown) | null} [again]
 */
export function problem(error, failed, again = null) {
  if (!(error instanceof ApiError)) throw error
  const isForbidden = error.status === 403
  const action = again && !isForbidden && button('Try again', again)
  return banner(isForbidden ? 'info' : 'revoked', html`<strong>${failed}</strong> ${advice(error)}`, action)
}

/**
 * Return advice for a failed call.
 * @param {ApiError} error
 */
export function advice(error) {
  const request = error.requestId ? ` Request ${error.requestId}.` : ''
  if (error.status === 0) return 'The service is not responding. Is it running?'
  if (error.status === 429) return 'Too many requests. Wait a minute, then try again.'
  if (error.status >= 500) return `The service is unavailable: ${error.message}${request}`
  return error.message
}

/**
 * Return a message across the page, or across a panel.
 * @param {State} state
 * @param {unknown} text
 * @param {unknown} [action] a button
 */
export const banner = (state, text, action = null) =>
  html`<div class=${`banner ${state}`} role=${state === 'revoked' ? 'alert' : 'status'}>
    ${icon(state)}
    <p>${text}</p>
    ${action}
  </div>`

/**
 * Return a message in place of an action that the key may not use.
 * @param {string} act
 * @param {string} scopes that would permit it
 */
export const forbidden = (act, scopes) =>
  banner(
    'info',
    html`<strong>This key cannot ${act}.</strong> Ask an administrator for an API key with the scope ${scopes}.`,
  )

/**
 * Return a heading with a summary and buttons.
 * @param {unknown} title
 * @param {unknown} [text]
 * @param {unknown} [actions]
 */
export const heading = (title, text = null, actions = null) =>
  html` <header class="head">
    <div>
      <h1 tabindex="-1" dir="auto">${title}</h1>
      ${text && html`<p class="soft">${text}</p>`}
    </div>
    <div class="actions">${actions}</div>
  </header>`

/**
 * Return a time in words, with the exact time in its title.
 * @param {string | null | undefined} time
 * @param {string} [never]
 */
export const when = (time, never = 'never') =>
  time ? html`<time datetime=${time} title=${exactly(time)}>${formatTime(time, now())}</time>` : never

/**
 * Return the duration until a time.
 * @param {string} time
 */
export const left = (time) => span((Date.parse(time) - now()) / 1000)

/**
 * Return a name or a reason, which may be in any script.
 * @param {unknown} text
 */
export const userText = (text) => html`<bdi class="named" dir="auto">${text}</bdi>`

/**
 * Return a name of a thing. A long name is cut in its middle, because the end distinguishes it.
 * @param {string} name
 */
export function objectName(name) {
  const letters = [...name]
  const isLong = letters.length > NAME
  const words = isLong ? [...letters.slice(0, NAME - ENDING), '…', ...letters.slice(-ENDING)].join('') : name
  return html`<bdi class="called" dir="auto" title=${name.length > NAME ? name : null}>${words}</bdi>`
}

/**
 * Return the name of an actor. An API key is a link to its details.
 * @param {string} identity
 * @param {string | null} [key] the name of the API key at that time
 */
export function person(identity, key = null) {
  const [id = ''] = identity.split('@')
  const name = objectName(nameOf(identity, key))
  return id.startsWith('svc_ak_') ? html`<a href=${`#/api-keys/${id}`}>${name}</a>` : name
}

/**
 * Copy a text to the clipboard, and announce it.
 * @param {string} text
 */
export const copy = async (text) => announce(await copyText(text))

/**
 * Copy a text to the clipboard. Resolves with a message.
 * @param {string} text
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text)
    return 'Copied.'
  } catch {
    return 'The browser blocked the copy. Select the text and copy it.'
  }
}

/**
 * Announce a message: screen readers read it, and the page shows it for some seconds.
 * @param {string} text
 */
export function announce(text) {
  const place = /** @type {HTMLElement} */ (document.getElementById('said'))
  put(place, text)
  setTimeout(() => place.textContent === text && put(place), 6000)
}

/**
 * Return a button.
 * @param {unknown} words
 * @param {(event: MouseEvent) => unknown} run
 * @param {'main' | 'quiet' | 'danger' | 'flat' | 'facet' | 'close' | null} [look]
 */
export const button = (words, run, look = null) =>
  html`<button type="button" class=${look} @click=${run}>${words}</button>`

/** Load a style sheet of some pages, before their first element is drawn. @param {string} name */
export async function loadSheet(name) {
  const sheet = one(html`<link rel="stylesheet" />`)
  sheet.setAttribute('href', new URL(`../${name}`, import.meta.url).href)
  document.head.append(sheet)
  await new Promise((resolve) => ['load', 'error'].forEach((end) => sheet.addEventListener(end, resolve)))
}

/** Mark the page as drawn with its data. */
export function ready() {
  document.body.dataset.ready = document.body.dataset.page
}

/**
 * Return a list of names and values.
 * @param {([unknown, unknown] | false | null | undefined | '' | 0)[]} entries
 */
export const facts = (entries) =>
  html`<dl class="facts">
    ${present(entries).map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`
