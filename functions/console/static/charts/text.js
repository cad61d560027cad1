/** Text in pictures: SVG does not wrap lines, so pictures measure their text. */

/** @typedef {{size?: number, weight?: number}} Font */

/** @type {CanvasRenderingContext2D | null} */
let canvas = null

/**
 * Return the width of a text in CSS pixels. Outside a browser, return an upper estimate.
 * @param {string} text
 * @param {Font} [font]
 */
export function measure(text, { size = 12.5, weight = 450 } = {}) {
  if (!('CanvasRenderingContext2D' in globalThis)) return [...text].length * size * 0.62
  canvas ??= /** @type {CanvasRenderingContext2D} */ (document.createElement('canvas').getContext('2d'))
  canvas.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`
  return canvas.measureText(text).width
}

/**
 * Return the longest prefix that fits, with "…" if the text is cut.
 * @param {string} text
 * @param {number} width
 * @param {Font} [font]
 */
export function cut(text, width, font) {
  if (measure(text, font) <= width) return text
  const letters = [...text]
  let [fits, most] = [0, letters.length]
  while (fits < most) {
    const middle = Math.ceil((fits + most) / 2)
    if (measure(`${letters.slice(0, middle).join('').trimEnd()}…`, font) <= width) fits = middle
    else most = middle - 1
  }
  return `${letters.slice(0, fits).join('').trimEnd()}…`
}
