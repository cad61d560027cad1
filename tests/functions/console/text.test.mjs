import assert from 'node:assert/strict'
import test from 'node:test'

import { cut, measure, wrapped } from '../../../functions/console/static/pictures/text.js'

test('a text that fits is left as it is', () => {
  assert.equal(cut('Payments', measure('Payments')), 'Payments')
})

test('a text that does not fit is cut so that it fits with its mark', () => {
  const width = measure('Payments is')
  const found = cut('Payments issuer', width)
  assert.match(found, /^Payments.*…$/)
  assert.ok(measure(found) <= width)
})

test('no line is wider than asked, and no word is lost', () => {
  const text = 'From here on, online checks refuse it.'
  const lines = wrapped(text, 90)
  assert.ok(lines.length > 1)
  assert.ok(lines.every((line) => measure(line) <= 90))
  assert.equal(lines.join(' '), text)
})

test('a word wider than the line is cut, also between letters of two units', () => {
  assert.deepEqual(wrapped('😀'.repeat(100), measure('😀😀😀…')), ['😀😀😀…'])
})
