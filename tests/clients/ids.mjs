// The set of revoked warrants beside a plain one: node ids.mjs CLIENT. It fails where they differ.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";

const { CompactIds, RevokedIds } = await import(pathToFileURL(`${process.argv[2]}/dist/state.js`));
const below = (most) => Math.floor(Math.random() * most);
const name = () => [
  `svc_wrt_${"x".repeat(below(70))}`, `svc_wrt_${below(50)}`, "é".repeat(below(9)), "a".repeat(70 + below(5)), "",
][below(5)];
const names = () => new Set(Array.from({ length: below(40) }, name));

function same(held, plain) {
  assert.equal(held.size, plain.size);
  assert.deepEqual([...held].sort(), [...plain].sort());
  for (const each of plain) {
    for (const asked of [each, `${each}x`, each.slice(0, -1)]) assert.equal(held.has(asked), plain.has(asked), asked);
  }
}

for (let round = 0; round < 300; round++) {
  const plain = names(), whole = new CompactIds(plain, plain.size);
  same(whole, plain);
  let held = new RevokedIds(whole);
  for (let change = 0; change < 5; change++) {
    const removed = [...names()], revoked = [...names()].filter((each) => !removed.includes(each));
    held = held.after([{ removed, revoked }]);
    for (const each of removed) plain.delete(each);
    for (const each of revoked) plain.add(each);
    same(held, plain);
  }
  same(whole, new Set(whole));
}

// So many changes are folded into the large set.
const many = Array.from({ length: 20000 }, (_, n) => `svc_wrt_${n}`), gone = many.slice(0, 9000);
const folded = new RevokedIds().after([{ removed: [], revoked: many }]).after([{ removed: gone, revoked: [] }]);
assert.equal(folded.added.size, 0);
same(folded, new Set(many.slice(9000)));
