/** Reads and writes CSV files in the spreadsheet dialects (RFC 4180 and common variants). */

/** @typedef {{line: number, cells: string[]}} Row first line in the file, from 1 */

/** The file is not text, or not CSV. */
export class Unreadable extends Error {}

/**
 * Decode a file in UTF-8, or in UTF-16 with a byte order mark. Throws `Unreadable`.
 * @param {Uint8Array} bytes
 */
export function decodeText(bytes) {
  const [first, second] = bytes
  const encoding =
    first === 0xff && second === 0xfe ? 'utf-16le' : first === 0xfe && second === 0xff ? 'utf-16be' : 'utf-8'
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(bytes)
  } catch {
    throw new Unreadable(
      'The file is not text in UTF-8, or in UTF-16 with a byte order mark. ' +
        'In a spreadsheet, save it as “CSV UTF-8”.',
    )
  }
}

/**
 * Yield the rows that are not empty.
 *
 * Cells are separated by comma, semicolon or tab, by the most frequent in the first row. Throws `Unreadable` if a quote
 * is not closed.
 * @param {string} text
 * @returns {Generator<Row>}
 */
export function* rows(text) {
  const separator = separatorOf(text)
  let line = 1
  for (let at = 0; at < text.length;) {
    const row = { line, cells: /** @type {string[]} */ ([]) }
    for (let more = true; more;) {
      const cell = cellAt(text, at, separator, line)
      row.cells.push(cell.value.trim())
      line += cell.breaks
      more = text[cell.end] === separator
      at = cell.end + (more ? 1 : text.startsWith('\r\n', cell.end) ? 2 : 1)
    }
    line += 1
    if (row.cells.some(Boolean)) yield row
  }
}

/**
 * Return one cell and its end: a separator, or the end of the line or text.
 * @param {string} text
 * @param {number} start
 * @param {string} separator
 * @param {number} line
 */
function cellAt(text, start, separator, line) {
  if (text[start] !== '"') {
    const end = endOf(text, start, separator)
    return { value: text.slice(start, end), end, breaks: 0 }
  }
  let close = text.indexOf('"', start + 1)
  while (close !== -1 && text[close + 1] === '"') close = text.indexOf('"', close + 2)
  if (close === -1) throw new Unreadable(`Line ${line}: the quotation mark is not closed.`)
  const quoted = text.slice(start + 1, close)
  const end = endOf(text, close + 1, separator)
  return {
    value: quoted.replaceAll('""', '"') + text.slice(close + 1, end),
    end,
    breaks: quoted.split(/\r\n|\r|\n/).length - 1,
  }
}

/**
 * @param {string} text
 * @param {number} start
 * @param {string} separator
 */
function endOf(text, start, separator) {
  let end = start
  while (end < text.length && text[end] !== separator && text[end] !== '\n' && text[end] !== '\r') end += 1
  return end
}

/** @param {string} text */
function separatorOf(text) {
  const first = /^\s*(.*)/.exec(text)?.[1].replace(/"[^"]*"/g, '') ?? ''
  const counts = [',', ';', '\t'].map((each) => /** @type {const} */ ([first.split(each).length, each]))
  return counts.reduce((best, each) => (each[0] > best[0] ? each : best))[1]
}

/**
 * Return a file that a spreadsheet reads as text: a cell that looks like a formula gets an apostrophe.
 * @param {unknown[][]} table
 */
export const formatCsv = (table) => `\ufeff${table.map((row) => `${row.map(quoted).join(',')}\r\n`).join('')}`

/** @param {unknown} cell */
function quoted(cell) {
  const text = String(cell ?? '').replace(/^[=+\-@\t\r]/, "'$&")
  return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
