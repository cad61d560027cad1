/**
 * Elements from templates. Only the literal text of a template is parsed, once; a value becomes a
 * text node, an attribute or a listener, and is never parsed.
 *
 *     html`<a href=${address} @click=${open} ?hidden=${closed}>${name}</a>`
 *
 * A value stands for a whole attribute (`name=${value}`: none if it is null or false), a listener
 * (`@event=${listener}`), a flag (`?name=${condition}`) or for children: nodes, texts, numbers, and
 * lists of these; null and booleans are no children.
 */

/** @typedef {{kind: 'html' | 'svg', content: HTMLTemplateElement, slots: Slot[][]}} Compiled */
/** @typedef {{name: string | null, index: number}} Slot a place in a node; no name: its children */

const SVG = 'http://www.w3.org/2000/svg'
const ADDRESSES = new Set(['href', 'src', 'xlink:href'])
const REFUSED = /^(on.*|style|srcdoc|action|formaction)$/i

const policy = globalThis.trustedTypes?.createPolicy('rescind', { createHTML: (/** @type {string} */ text) => text })

/** @type {WeakMap<TemplateStringsArray, Compiled>} */
const compiled = new WeakMap()

/**
 * HTML elements.
 * @param {TemplateStringsArray} strings
 * @param {...unknown} values
 * @returns {DocumentFragment}
 */
export const html = (strings, ...values) => build('html', strings, values)

/**
 * SVG elements, for a place inside an `<svg>`.
 * @param {TemplateStringsArray} strings
 * @param {...unknown} values
 * @returns {DocumentFragment}
 */
export const svg = (strings, ...values) => build('svg', strings, values)

/**
 * The one element of a fragment.
 * @template {Element} E
 * @param {DocumentFragment} fragment
 * @returns {E}
 */
export function one(fragment) {
  const element = fragment.firstElementChild
  if (!element) throw new TypeError('The template has no element.')
  return /** @type {E} */ (element)
}

/**
 * Replace the children of a node.
 * @param {ParentNode} target
 * @param {...unknown} children
 */
export function put(target, ...children) {
  target.replaceChildren(...nodes(children))
}

/**
 * @param {unknown} value
 * @returns {Node[]}
 */
function nodes(value) {
  if (value === null || value === undefined || typeof value === 'boolean') return []
  if (value instanceof Node) return [value]
  if (Array.isArray(value)) return value.flatMap(nodes)
  return [document.createTextNode(String(value))]
}

/**
 * @param {'html' | 'svg'} kind
 * @param {TemplateStringsArray} strings
 * @param {unknown[]} values
 */
function build(kind, strings, values) {
  const template = compiled.get(strings) ?? compile(kind, strings)
  const root = /** @type {DocumentFragment} */ (template.content.content.cloneNode(true))
  const found = walk(root)
  template.slots.forEach((slots, position) => {
    for (const { name, index } of slots) {
      const node = /** @type {Element | Comment} */ (found[position])
      if (name === null) node.replaceWith(...nodes(values[index]))
      else set(/** @type {Element} */ (node), name, values[index])
    }
  })
  if (kind === 'html') return root
  const fragment = document.createDocumentFragment()
  fragment.append(.../** @type {Element} */ (root.firstElementChild).childNodes)
  return fragment
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {unknown} value
 */
function set(element, name, value) {
  if (name.startsWith('@')) {
    if (value) element.addEventListener(name.slice(1), /** @type {EventListener} */ (value))
  } else if (name.startsWith('?')) element.toggleAttribute(name.slice(1), Boolean(value))
  else if (value !== null && value !== undefined && value !== false) {
    const text = String(value)
    // `#…` or `/…`, never another scheme or host.
    if (ADDRESSES.has(name) && !/^(#|\/(?![/\\]))/.test(text)) throw new TypeError(`${name} leads elsewhere: ${text}`)
    element.setAttribute(name, text)
  }
}

/**
 * @param {'html' | 'svg'} kind
 * @param {TemplateStringsArray} strings
 * @returns {Compiled}
 */
function compile(kind, strings) {
  // A program cannot make such an object from a text by mistake.
  if (!Object.isFrozen(strings) || !Array.isArray(strings.raw)) throw new TypeError('This is no template.')
  const text = strings.reduce((before, literal, index) => `${before}${marker(before, index - 1)}${literal}`)
  const content = document.createElement('template')
  const whole = kind === 'svg' ? `<svg xmlns="${SVG}">${text}</svg>` : text.trim()
  content.innerHTML = /** @type {string} */ (/** @type {unknown} */ (policy ? policy.createHTML(whole) : whole))
  const made = { kind, content, slots: walk(content.content).map(slotsOf) }
  const placed = made.slots.flat().length
  if (placed !== strings.length - 1) throw new TypeError(`A value is at a place where it cannot be: ${strings.join('…')}`)
  compiled.set(strings, made)
  return made
}

/**
 * @param {string} before
 * @param {number} index
 */
function marker(before, index) {
  const inTag = before.lastIndexOf('<') > before.lastIndexOf('>')
  return inTag ? `"~${index}~"` : `<!--~${index}~-->`
}

/**
 * The elements and comments below a node, in the order of the document.
 * @param {Node} root
 */
function walk(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT)
  const found = []
  while (walker.nextNode()) found.push(/** @type {Element | Comment} */ (walker.currentNode))
  return found
}

/**
 * What of a node is a value; its marked attributes are removed.
 * @param {Element | Comment} node
 * @returns {Slot[]}
 */
function slotsOf(node) {
  if (node instanceof Comment) {
    const mark = /^~(\d+)~$/.exec(node.data)
    return mark ? [{ name: null, index: Number(mark[1]) }] : []
  }
  const slots = []
  for (const { name, value } of [...node.attributes]) {
    const mark = /^~(\d+)~$/.exec(value)
    if (!mark) continue
    if (REFUSED.test(name.replace(/^\?/, ''))) throw new TypeError(`${name} may not be a value.`)
    slots.push({ name, index: Number(mark[1]) })
    node.removeAttribute(name)
  }
  return slots
}
