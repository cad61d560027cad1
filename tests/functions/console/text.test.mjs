import assert from 'node:assert/strict'
import test from 'node:test'

import { cut, measure } from '../../../functions/console/static/charts/text.js'

test('a text that fits is left as it is', () => {
  assert.equal(cut('Payments', measure('Payments')), 'Payments')
})

test('a text that does not fit is cut so that it fits with its mark', () => {
  const width = measure('Payments is')
  const found = cut('Payments issuer', width)
  assert.match(found, /^Payments.*…$/)
  assert.ok(measure(found) <= width)
})
