/** How people and times are named. */

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { brief, instant, nameOf, present, seconds, shownTimes, tokenWords, formatTime } from '../../../functions/console/static/format.js'

test('an identity is said in the same words on each page', () => {
  assert.equal(nameOf('fraud-desk@acme.svc'), 'fraud-desk')
  assert.equal(nameOf('svc_ak_01kbm4xt3rfz8c5w7y2q9n6d1e@acme.svc'), 'API key …9n6d1e')
  assert.equal(nameOf('system+schedule@acme.svc'), 'the service (schedule)')
  assert.equal(nameOf('system+operator@acme.svc'), 'the operator')
  assert.equal(nameOf('system+svc_idp_01kbm4xt3rfz8c5w7y2q9n6d1e@acme.svc', 'SSO'), 'the identity provider SSO')
  assert.equal(nameOf('someone'), 'someone')
  assert.equal(nameOf('svc_ak_01kbm4xt3rfz8c5w7y2q9n6d1e@acme.svc', 'anna.lindqvist'), 'anna.lindqvist')
  assert.equal(nameOf('fraud-desk@acme.svc', 'night shift'), 'fraud-desk (night shift)')
  assert.equal(nameOf('admin@acme.svc', 'admin'), 'admin')
  assert.equal(nameOf('ann@acme.example', 'Ann'), 'Ann (ann@acme.example)')
  assert.equal(nameOf('ann@acme.example'), 'ann@acme.example')
})

test('a revoked token is said in words', () => {
  const digest = 'scXfc1BUimnXAND2BCYrKsVD1Rba1G7Dgm-wHSRN2lY'
  const said = { token_issuer: 'https://as.example', token_value: 'ann' }
  const subject = `svc_wrt_sub-${digest}-001795780800`
  const session = `svc_wrt_sid-${digest}`
  assert.equal(
    tokenWords({ warrant_id: subject, ...said }),
    'All tokens of user ann of https://as.example until 2026-11-27 12:00:00 UTC',
  )
  assert.equal(tokenWords({ warrant_id: subject }), `All tokens of a user until 2026-11-27 12:00:00 UTC (${subject})`)
  assert.equal(tokenWords({ warrant_id: session, ...said }), 'Session ann of https://as.example')
  assert.equal(tokenWords({ warrant_id: session }), `Session ${session}`)
  assert.equal(tokenWords({ warrant_id: `svc_wrt_jwt-${digest}`, ...said }), 'Token ann of https://as.example')
  assert.equal(tokenWords({ warrant_id: 'svc_wrt_laptop-17' }), '')
  assert.equal(tokenWords({ warrant_id: 'svc_wrt_sub-laptop-17' }), '')
})

test('what is absent is left out of a list, also what the API omits', () => {
  assert.deepEqual(present([false, 'a', null, undefined, '', 'b']), ['a', 'b'])
})

test('a day and a minute have their first and their last second', () => {
  const both = (/** @type {string} */ text) => [instant(text), instant(text, true)]
  assert.deepEqual(both('2026-11-22'), ['2026-11-22T00:00:00Z', '2026-11-22T23:59:59Z'])
  assert.deepEqual(both('2026-11-22T03:21'), ['2026-11-22T03:21:00Z', '2026-11-22T03:21:59Z'])
  assert.deepEqual(both('yesterday'), ['yesterday', 'yesterday'])
})

test('a time is told as its age, or exactly', () => {
  const now = Date.parse('2026-11-22T12:00:00Z')
  assert.equal(formatTime('2026-11-22T11:00:00Z', now), '1 h ago')
  shownTimes.isExact = true
  assert.deepEqual(['2026-11-22T11:00:00Z', '2025-01-02T11:00:00Z'].map((time) => formatTime(time, now)), ['11-22 11:00', '2025-01-02'])
})

test('a time is typed in any unit, and shown in its largest', () => {
  assert.deepEqual([14_400, 90, 86_400, 0, 3601].map(brief), ['4h', '90s', '1d', '0s', '3601s'])
  assert.deepEqual(['4h', ' 90 s', '21600', '1d', '0'].map(seconds), [14_400, 90, 21_600, 86_400, 0])
  for (const text of ['', 'h', '1.5h', '-1', '1w', '1h30m']) assert.ok(Number.isNaN(seconds(text)), text)
})
