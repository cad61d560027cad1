/** Sentences of the audit log and the check of the sealed log, on what others defined (RFC 6962). */

import assert from 'node:assert/strict'
import { test } from 'node:test'

import { collapseRuns, sentence } from '../../../functions/console/static/components/audit_sentences.js'
import { CorruptLog, bundlePath, checkpoint, entryOf, isSignedBy, keyOf, leaf, records, Tree, WrongKey } from '../../../functions/console/static/sealed_log.js'

const entry = (action, timestamp, details = {}, actor = 'fraud-desk@local.svc') => ({ action, actor, timestamp, details, resource_id: 'svc_rev_01' })
const hex = (text) => Uint8Array.from(text.match(/../g) ?? [], (byte) => parseInt(byte, 16))
const base64 = (text) => Buffer.from(text, 'hex').toString('base64')

test('F476a: a run of one actor and action within a minute is one sentence', () => {
  const runs = collapseRuns([
    entry('revocation.create', '2026-11-22T10:02:30Z', { warrant_id: 'svc_wrt_c' }),
    entry('revocation.create', '2026-11-22T10:01:40Z', { warrant_id: 'svc_wrt_b' }),
    entry('revocation.create', '2026-11-22T10:00:00Z', { warrant_id: 'svc_wrt_a' }),
    entry('revocation.create', '2026-11-22T10:00:00Z', { warrant_id: 'svc_wrt_0' }, 'admin@local.svc'),
  ])
  assert.deepEqual(runs.map((run) => Object.values(sentence(run)).join(' ')), [
    'fraud-desk revoked 2 warrants', 'fraud-desk revoked the warrant svc_wrt_a', 'admin revoked the warrant svc_wrt_0',
  ])
})

test('F476b: entries of one batch are one sentence, and no run crosses midnight', () => {
  const of = (timestamp, warrants) => entry('revocation.create_batch', timestamp, { batch_id: 'svc_bat_1', revocations: warrants.map((warrant_id) => ({ warrant_id })) })
  const [run, ...rest] = collapseRuns([of('2026-11-22T10:09:00Z', ['svc_wrt_a', 'svc_wrt_b']), of('2026-11-22T10:00:00Z', ['svc_wrt_c'])])
  assert.equal(sentence(run).what, '3 warrants')
  assert.equal(rest.length, 0)
  assert.equal(collapseRuns([of('2026-11-23T00:00:01Z', ['svc_wrt_a']), of('2026-11-22T23:59:59Z', ['svc_wrt_b'])]).length, 2)
})

test('F476d: the entries about the calls of a batch are in its sentence, and count no warrant', () => {
  const part = (action, warrant) => entry(action, '2026-11-22T10:00:00Z', { batch_id: 'svc_bat_1', summary_id: 's', revocations: [{ warrant_id: warrant }] })
  const call = (action, batch_id = 'svc_bat_1') => entry('revocation.batch', '2026-11-22T10:00:00Z', { action, batch_id, warrants: 2 })
  const other = entry('key.create', '2026-11-22T10:00:00Z', { name: 'k' })
  const runs = collapseRuns([
    call('revoke'), part('revocation.create_batch', 'd'), other, part('revocation.extend_batch', 'c'), call('revoke'), part('revocation.create_batch', 'a'),
    call('unrevoke'), part('revocation.delete_batch', 'a'), call('revoke', 'svc_bat_2'),
  ])
  assert.deepEqual(runs.map((run) => [run.entries.length, Object.values(sentence(run)).join(' ')]), [
    [5, 'fraud-desk revoked 3 warrants'], [1, 'fraud-desk created the signing key k'],
    [2, 'fraud-desk unrevoked the warrant a'], [1, 'fraud-desk sent a request of the batch svc_rev_01'],
  ])
})

test('F476e: a sentence about leaked keys, and about protected actions, is in the usual order of words', () => {
  const leaked = entry('api_key.leaked', '2026-11-22T10:00:00Z', { name: 'pipeline' }, 'system+leaks@acme.svc')
  const ofTenant = (action, actor) => ({ ...entry(action, '2026-11-22T10:00:00Z', { name: 'protected actions' }, actor), resource_id: 'svc_tnt_01' })
  const [one, two] = ['approval', 'approval'].map((name) => ({ ...entry('approval.override', '2026-11-22T10:00:00Z', { action: name }, 'system+operator@acme.svc'), resource_id: 'svc_apr_01' }))
  const said = (...entries) => collapseRuns(entries).map((run) => Object.values(sentence(run)).join(' '))
  assert.deepEqual(said(leaked), ['the service (leaks) revoked the leaked API key pipeline'])
  assert.deepEqual(said(leaked, leaked), ['the service (leaks) revoked 2 leaked API keys'])
  assert.deepEqual(said(ofTenant('tenant.update_protected_actions')), ['fraud-desk changed the protected actions'])
  // An override of an approval is another action of the operator.
  assert.deepEqual(said(one, two, ofTenant('approval.override', 'system+operator@acme.svc')), ['the operator overrode 2 approvals', 'the operator removed the protection of all actions'])
})

test('F476c: an action that the page does not know is said as it is', () => {
  assert.deepEqual(sentence(collapseRuns([entry('moon.land', '2026-11-22T10:00:00Z')])[0]), { who: 'fraud-desk', did: 'moon.land', what: 'svc_rev_01' })
})

// The leaves and roots of the test vectors of Certificate Transparency (RFC 6962, as in its reference implementation).
const LEAVES = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f']
const ROOTS = [
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d', 'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77', 'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4', '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c', '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
]

test('F477a: the tree has the roots of RFC 6962', () => {
  const tree = new Tree()
  assert.equal(tree.root(), base64('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'))
  for (const [index, text] of LEAVES.entries()) {
    tree.add(hex(text))
    assert.equal(tree.root(), base64(ROOTS[index]))
  }
})

test('F477b: a checkpoint is signed by the owner of a trusted key, and by nobody else', async () => {
  const keys = await crypto.subtle.generateKey('Ed25519', true, ['sign', 'verify'])
  const raw = Buffer.from(await crypto.subtle.exportKey('raw', keys.publicKey))
  const [origin, typed] = ['rescind/svc_tnt_1/1', Buffer.concat([hex('01'), raw])]
  const text = `${origin}\n3\nAAAA\n`
  const signature = Buffer.from(await crypto.subtle.sign('Ed25519', keys.privateKey, Buffer.from(text)))
  const named = Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.concat([Buffer.from(`${origin}\n`), typed]))).subarray(0, 4)
  const note = (body, name = origin) => checkpoint(`${body}\n— ${name} ${Buffer.concat([named, signature]).toString('base64')}\n`)
  const verifierKey = (id = named, data = typed) => `${origin}+${id.toString('hex')}+${data.toString('base64')}`
  assert.deepEqual([note(text).size, note(text).root], [3, 'AAAA'])
  const key = keyOf(verifierKey(), origin)
  assert.deepEqual(Buffer.from(key), raw)
  const other = new Uint8Array(raw).fill(raw[0] ^ 1, 0, 1)
  assert.equal(await isSignedBy(note(text), [other, key]), true)
  assert.equal(await isSignedBy(note(text), [other]), false)
  assert.equal(await isSignedBy(note(text), []), false)
  assert.equal(await isSignedBy(note(text.replace('3', '4')), [key]), false)
  assert.equal(await isSignedBy(note(text, 'rescind/svc_tnt_2/1'), [key]), false)
  const weak = Buffer.concat([hex('01'), Buffer.alloc(32)])
  for (const bad of [verifierKey(hex('00000000')), verifierKey(named, weak), verifierKey(named, raw), 'a key', '']) assert.throws(() => keyOf(bad, origin), WrongKey)
  assert.throws(() => keyOf(verifierKey(), 'rescind/svc_tnt_2/1'), /belongs to another log/)
  assert.throws(() => checkpoint('hello'), CorruptLog)
})

test('F477c: records name their entry, and bundles of another form are refused', () => {
  const id = hex('019ac2a1e3d10123456789abcdef0123')
  const record = Buffer.concat([id, hex('0000000068000000'), Buffer.alloc(32, 7)])
  const bundle = new Uint8Array(Buffer.concat([hex('0038'), record, hex('0038'), record]))
  assert.equal(records(bundle).length, 2)
  assert.throws(() => records(bundle.slice(0, -1)), CorruptLog)
  const { entry: ulid, expires, sha256 } = leaf(records(bundle)[0])
  assert.equal(ulid, '01kb1a3ryh04hmasw9nf6yy093')
  assert.deepEqual([expires, sha256], [0x68000000, '07'.repeat(32)])
  assert.deepEqual([bundlePath(0, 300), bundlePath(256, 300), bundlePath(256 * 1234, 256 * 2000)].map((path) => path.split('entries/')[1]), ['000', '001.p/44', 'x001/234'])
  assert.deepEqual(entryOf('{"next":"x"}'), null)
})
