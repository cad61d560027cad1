/**
 * lit-html templates with two additional rules: no value may name another host or run as a script, and null and
 * booleans are not children.
 *
 *     html`<a href=${address} @click=${open} ?hidden=${closed}>${name}</a>`
 *
 * Only the literal text of a template is parsed. A value becomes a text node, an attribute (none if it is null or
 * false), a listener or a flag. Children are nodes, templates, texts, numbers, and lists of these.
 */

import { html as markup, nothing, render, svg as drawing } from './vendor/lit-html/lit-html.js'

/** @typedef {import('./vendor/lit-html/lit-html.js').TemplateResult<1 | 2>} Template */

const ADDRESS = /\s(href|src|xlink:href)=["']?$/i
const REFUSED = /\s(on[^\s=]*|style|srcdoc|action|formaction)=["']?$/i

/**
 * Create HTML elements.
 * @param {TemplateStringsArray} strings
 * @param {...unknown} values
 */
export const html = (strings, ...values) => markup(strings, ...allowed(strings, values))

/**
 * Create SVG elements inside an `<svg>`.
 * @param {TemplateStringsArray} strings
 * @param {...unknown} values
 */
export const svg = (strings, ...values) => drawing(strings, ...allowed(strings, values))

/**
 * Create the only element of a template.
 * @template {Element} [E=HTMLElement]
 * @param {Template} template
 * @returns {E}
 */
export function one(template) {
  const fragment = document.createDocumentFragment()
  render(template, fragment)
  const element = fragment.firstElementChild
  if (!element) throw new TypeError('The template has no element.')
  return /** @type {E} */ (element)
}

/** @type {WeakSet<ParentNode>} */
const drawn = new WeakSet()

/**
 * Draw the children of a node. Changes only the differing parts of existing children.
 * @param {ParentNode} target
 * @param {...unknown} children
 */
export function put(target, ...children) {
  if (!drawn.has(target)) target.replaceChildren()
  drawn.add(target)
  render(children.map(child), /** @type {HTMLElement} */ (target))
}

/**
 * @param {TemplateStringsArray} strings
 * @param {unknown[]} values
 */
function allowed(strings, values) {
  // Only a literal template has such an object, so a text cannot be passed by mistake.
  if (!Object.isFrozen(strings) || !Array.isArray(strings.raw)) throw new TypeError('This is no template.')
  return values.map((value, index) => {
    const before = /** @type {string} */ (strings[index])
    if (REFUSED.test(before)) throw new TypeError(`This may not be a value: ${before}`)
    // `#…` or `/…`, never another scheme or host.
    if (ADDRESS.test(before) && !/^(#|\/(?![/\\]))/.test(String(value)))
      throw new TypeError(`An address leads elsewhere: ${value}`)
    return value === true ? true : child(value)
  })
}

/**
 * @param {unknown} value
 * @returns {unknown}
 */
function child(value) {
  if (Array.isArray(value)) return value.map(child)
  return value === null || value === undefined || typeof value === 'boolean' ? nothing : value
}
