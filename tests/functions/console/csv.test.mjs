import assert from 'node:assert/strict'
import test from 'node:test'

import { decodeText, rows, Unreadable, formatCsv } from '../../../functions/console/static/components/csv.js'
import { MOST, read } from '../../../functions/console/static/components/warrant_lines.js'

const cells = (text) => [...rows(text)].map((row) => row.cells)
const bytes = (...values) => new Uint8Array(values)
const utf16 = (text, isBig) => Uint8Array.from([0xfeff, ...[...text].map((each) => each.charCodeAt(0))]
  .flatMap((unit) => isBig ? [unit >> 8, unit & 255] : [unit & 255, unit >> 8]))

test('the mark of the encoding is read and left out', () => {
  assert.equal(decodeText(utf16('ä;b', false)), 'ä;b')
  assert.equal(decodeText(utf16('ä;b', true)), 'ä;b')
  assert.equal(decodeText(bytes(0xef, 0xbb, 0xbf, 0x61)), 'a')
})

test('what is no text is refused, and not read with other letters', () => {
  assert.throws(() => decodeText(bytes(0x47, 0x65, 0x72, 0xe4, 0x74)), Unreadable)
})

test('comma, semicolon and tab separate, by the first row', () => {
  for (const separator of [',', ';', '\t']) assert.deepEqual(cells(`a${separator}b\nc${separator}d, e; f`)[0], ['a', 'b'])
  assert.deepEqual(cells('a;b\n1,5;2'), [['a', 'b'], ['1,5', '2']])
  assert.deepEqual(cells('"a,b,c";d\ne;f'), [['a,b,c', 'd'], ['e', 'f']])
})

test('quoted cells have separators, line breaks and doubled quotation marks', () => {
  assert.deepEqual(cells('a,"b ""c"", d\r\ne"\r\nf,g'), [['a', 'b "c", d\r\ne'], ['f', 'g']])
  assert.throws(() => cells('a\nb,"c\nd'), /Line 2/)
})

test('rows know their first line, whatever ends a line; empty ones are left out', () => {
  for (const end of ['\n', '\r\n', '\r']) {
    assert.deepEqual([...rows(['a', '', '"b', 'c"', ',', 'd'].join(end))].map(({ line }) => line), [1, 3, 6])
  }
})

test('a cell that a spreadsheet would take for a formula gets an apostrophe', () => {
  assert.equal(formatCsv([['=1+1', '+1', '-1', '@a', 'a=1', 'b "c", d', null]]), '\ufeff\'=1+1,\'+1,\'-1,\'@a,a=1,"b ""c"", d",\r\n')
})

test('what is written is read again', () => {
  const table = [['line', 'warrant_id'], ['1', 'a;b\r\n"c"'], ['2', '\té']]
  assert.deepEqual(cells(formatCsv(table).slice(1)), [['line', 'warrant_id'], ['1', 'a;b\r\n"c"'], ['2', "'\té"]])
})

test('warrants are read from a line each, or from the column with a heading', () => {
  assert.deepEqual(read(' svc_wrt_a \n\nsvc_wrt_b').warrants.map(({ line, id, reason }) => [line, id, reason]), [[1, 'svc_wrt_a', null], [3, 'svc_wrt_b', null]])
  const found = read('Reason;Warrant_ID\nlost;svc_wrt_a\n;svc_wrt_b')
  assert.deepEqual(found.warrants.map(({ line, id, reason }) => [line, id, reason]), [[2, 'svc_wrt_a', 'lost'], [3, 'svc_wrt_b', null]])
  assert.ok(found.hasReasons)
})

test('bad lines are told by number, a repeated warrant counts once', () => {
  const found = read(`warrant_id,reason\nsvc_wrt_a,x\nwrt_b,x\nsvc_wrt_a,y\n,x\nsvc_wrt_c,${'x'.repeat(1025)}\nsvc_wrt_ä,x`)
  assert.deepEqual(found.warrants.map(({ id }) => id), ['svc_wrt_a'])
  assert.deepEqual(found.bad.map(({ line }) => line), [3, 5, 6, 7])
  assert.equal(found.repeated, 1)
})

test('columns without a heading are not read in silence', () => {
  assert.equal(read('svc_wrt_a,lost').unread, 1)
  assert.equal(read('warrant_id,more\nsvc_wrt_a,lost').unread, 0)
})

test('there is at least one row and at most ten thousand', () => {
  assert.throws(() => read('warrant_id\n\n'), Unreadable)
  const lines = Array.from({ length: MOST }, (_, index) => `svc_wrt_${index}`)
  assert.equal(read(lines.join('\n')).warrants.length, MOST)
  assert.throws(() => read([...lines, 'svc_wrt_more'].join('\n')), Unreadable)
})
