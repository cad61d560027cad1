import assert from 'node:assert/strict'
import test from 'node:test'

import { HEIGHT, layout, MOST, near, WIDE } from '../../../functions/console/static/charts/signing_keys.js'
import { find, forest, label, NOTARIES_SHOWN, cascadeOf, reveal, visibleItems, warrantCount, keyState, summary } from '../../../functions/console/static/signing_keys.js'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const WIDTHS = [300, 358, 720, WIDE, 1026, 2000]

const key = (id, parent_id, more = {}) => ({ id, parent_id, type: parent_id ? 'issuer' : 'root', name: id, status: 'active', public_key: '', created_at: '2026-11-08T12:00:00Z', expires_at: null, ...more })
const notary = (id, parent_id, more = {}) => key(id, parent_id, { type: 'notary', ...more })
const view = (more = {}) => ({ folded: new Set(), whole: new Set(), found: '', ...more })
const usual = () => [
  notary('a11', 'a1'), key('b', null), key('a2', 'a'), notary('a12', 'a1', { status: 'revoked' }), key('a', null), key('a1', 'a', { status: 'suspended' }), notary('b1', 'b'),
  notary('a11-1', 'a1', { status: 'rotated', successor_id: 'a11', version: 1 }), notary('a11-2', 'a1', { status: 'rotated', successor_id: 'a11', version: 2 }),
]
const large = () => Array.from({ length: 5000 }, (_, index) => {
  const id = String(index).padStart(4, '0')
  return index < 4 ? key(id, null) : index < 100 ? key(id, String(index % 4).padStart(4, '0')) : notary(id, String(4 + (index % 96)).padStart(4, '0'))
})
const chain = (depth) => Array.from({ length: depth }, (_, index) => key(`k${String(index).padStart(2, '0')}`, index ? `k${String(index - 1).padStart(2, '0')}` : null))
/** Trees of random shapes, the same in each run. */
function random(seed) {
  let state = seed
  const next = (below) => (state = (state * 1103515245 + 12345) % 2 ** 31) % below
  const parents = []
  return Array.from({ length: 120 }, (_, index) => {
    const id = `r${String(index).padStart(3, '0')}`
    const parent = index && next(8) ? parents[next(parents.length)] : null
    const made = parent && next(2) ? notary(id, parent) : key(id, parent)
    if (made.type !== 'notary') parents.push(id)
    return made
  })
}
const all = { usual: usual(), chain: chain(33), one: [key('a', null)], ...Object.fromEntries([1, 2, 3, 4, 5].map((seed) => [`random ${seed}`, random(seed)])) }

test('no box overlaps another, and each is inside the picture, at each width', () => {
  for (const [name, keys] of Object.entries(all)) {
    for (const width of WIDTHS) {
      const { boxes, height } = layout(visibleItems(forest(keys), view()), width)
      for (const [index, { x, y, w }] of boxes.entries()) {
        assert.ok(x >= 0 && x + w <= width && y >= 0 && y + HEIGHT <= height, `${name} at ${width}: outside`)
        const hit = boxes.slice(index + 1).find((other) => x < other.x + other.w && other.x < x + w && y < other.y + HEIGHT + 12 && other.y < y + HEIGHT + 12)
        assert.ok(!hit, `${name} at ${width}: two boxes at ${x}, ${y}`)
      }
    }
  }
})

test('from 860 pixels on, the columns are the depths, and a parent is in the middle of its children', () => {
  const { boxes } = layout(visibleItems(forest(usual()), view()), WIDE)
  const at = Object.fromEntries(boxes.map((box) => [box.item.id, box]))
  assert.equal(at.a.x, at.b.x)
  assert.ok(at.a1.x > at.a.x + at.a.w && at.a11.x > at.a1.x + at.a1.w)
  assert.equal(at.a1.y, (at.a11.y + at.a12.y) / 2)
  const narrow = layout(visibleItems(forest(usual()), view()), WIDE - 1).boxes.map(({ y }) => y)
  assert.deepEqual(narrow, [...narrow].sort((one, other) => one - other))
})

test('a parent of very many is beside the first of them, where a person begins to read', () => {
  const { boxes } = layout(visibleItems(forest(large()), view()), 1026)
  const [root, first] = boxes
  assert.equal(root.item.depth, 0)
  assert.equal(root.y, first.y)
})

test('a tree too deep for columns is indented, and each box is wide enough to read', () => {
  const { boxes } = layout(visibleItems(forest(chain(33)), view()), 1026)
  assert.ok(boxes.every(({ w }) => w >= 140))
})

test('siblings and roots are in order of creation, and versions belong to their key', () => {
  const items = visibleItems(forest(usual()), view())
  assert.deepEqual(items.map(({ id }) => id), ['a', 'a1', 'a11', 'a12', 'a2', 'b', 'b1'])
  assert.deepEqual(items[2].place.older.map(({ version }) => version), [2, 1])
  assert.equal(find(forest(usual()), 'a11-1')?.key.id, 'a11')
})

test('a revocation reaches all below that are not revoked, and no others', () => {
  const places = forest(usual())
  assert.deepEqual([...cascadeOf(find(places, 'a'))].map(({ key: { id } }) => id).sort(), ['a', 'a1', 'a11', 'a2'])
  assert.equal(cascadeOf(find(places, 'a12')).size, 0)
})

test('a key below a suspended one cannot sign, and its label says why', () => {
  const places = forest(usual())
  assert.equal(keyState(find(places, 'a11'), NOW).word, 'cannot sign')
  const item = visibleItems(places, view()).find(({ id }) => id === 'a11')
  assert.equal(label(item, { now: NOW, dark: cascadeOf(find(places, 'a')) }), 'notary a11, cannot sign: a1 is suspended, 3 versions, would be revoked')
})

test('a key that has expired is shown so, though its status is active', () => {
  const [place] = forest([key('a', null, { expires_at: '2026-11-21T12:00:00Z' })]).roots
  assert.equal(keyState(place, NOW).word, 'expired')
  assert.equal(keyState(place, NOW - 1000).word, 'active')
})

test('of 5,000 keys, many notaries below one key are shown as one, with what is unusual about them', () => {
  const keys = large()
  keys[100].status = 'suspended'
  keys[196].status = 'revoked'
  const items = visibleItems(forest(keys), view())
  assert.equal(items.length, 4 + 96 + 96)
  const { members } = items.find((item) => item.members?.some((each) => each.key === keys[100]))
  assert.ok(members.length > NOTARIES_SHOWN)
  assert.deepEqual(summary(members, NOW), { state: 'suspended', words: `${members.length} notaries`, exceptions: '1 suspended, 1 revoked' })
})

test('the number of warrants is told if it was read for all that an item stands for', () => {
  const keys = large().map((each) => ({ ...each, warrant_count: 2 }))
  const items = visibleItems(forest(keys), view())
  const group = items.find(({ members }) => members)
  assert.equal(warrantCount(group), 2 * group.members.length)
  assert.match(label(group, { now: NOW, dark: new Set() }), /signed 102 warrants|signed 104 warrants/)
  delete group.members[0].key.warrant_count
  assert.equal(warrantCount(group), null)
  assert.doesNotMatch(label(group, { now: NOW, dark: new Set() }), /signed/)
})

test('a chosen notary is shown, and so is one that was looked for', () => {
  const [places, opened] = [forest(large()), view()]
  reveal(find(places, '4999'), opened)
  assert.ok(visibleItems(places, opened).some(({ id, members }) => id === '4999' && !members))
  assert.deepEqual(visibleItems(places, view({ found: ' 4999' })).map(({ id }) => id).length, 3)
  assert.equal(visibleItems(places, view({ found: 'nothing' })).length, 0)
})

test('with everything open, few of 5,000 boxes are drawn: those seen, and where the keyboard is', () => {
  const whole = new Set(large().map(({ id }) => id))
  const placed = layout(visibleItems(forest(large()), view({ whole })), 1026)
  assert.equal(placed.boxes.length, 5000)
  for (const top of [0, 60_000, 290_000]) {
    const drawn = near(placed, { seen: { top, bottom: top + 860 }, active: '4999' })
    assert.ok(drawn.length <= MOST)
    assert.ok(drawn.some(({ item }) => item.id === '4999'))
    const seen = placed.boxes.filter(({ y }) => y + HEIGHT > top && y < top + 860)
    assert.ok(seen.length > 0 && seen.every((box) => drawn.includes(box)))
  }
})

test('the layout of 5,000 open keys takes less than a frame', () => {
  const places = forest(large())
  const opened = view({ whole: new Set(places.places.keys()) })
  const times = Array.from({ length: 9 }, () => {
    const begun = performance.now()
    near(layout(visibleItems(places, opened), 1026), { seen: { top: 60_000, bottom: 60_860 }, active: null })
    return performance.now() - begun
  }).sort((one, other) => one - other)
  assert.ok(times[0] < 16, `${times[0]} ms`)
})
