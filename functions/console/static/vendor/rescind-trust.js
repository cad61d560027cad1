// Generated from infra/clients/typescript by make vendor. Do not edit.

// .tools/typescript/node_modules/@noble/hashes/utils.js
function isBytes(a) {
  return a instanceof Uint8Array || ArrayBuffer.isView(a) && a.constructor.name === "Uint8Array" && "BYTES_PER_ELEMENT" in a && a.BYTES_PER_ELEMENT === 1;
}
var atitle = (title) => title ? `"${title}" ` : "";
function anumber(n, title = "") {
  if (typeof n !== "number")
    throw new TypeError(atitle(title) + "expected number, got " + typeof n);
  if (!Number.isSafeInteger(n) || n < 0)
    throw new RangeError(atitle(title) + "expected integer >= 0, got " + n);
  return n;
}
function abytes(value, length, title = "") {
  if (isBytes(value) && (length === void 0 || value.length === length))
    return value;
  if (length !== void 0)
    anumber(length, "length");
  const bytes2 = isBytes(value);
  const ofLen = length !== void 0 ? ` of length ${length}` : "";
  const got = bytes2 ? `length=${value.length}` : `type=${typeof value}`;
  const message = atitle(title) + "expected Uint8Array" + ofLen + ", got " + got;
  if (!bytes2)
    throw new TypeError(message);
  throw new RangeError(message);
}
var aobject = (value, label) => {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    throw new TypeError((label === "object" ? "" : `"${label}" `) + "expected object, got type=" + typeof value);
};
var aopts = (value, label) => {
  aobject(value, label);
  const proto = Object.getPrototypeOf(value);
  if (proto !== Object.prototype && proto !== null)
    throw new TypeError(`"${label}" expected plain object`);
  if (Object.hasOwn(value, "__proto__"))
    throw new TypeError(`"${label}.__proto__" is not allowed`);
};
function aexists(instance, checkFinished = true) {
  if (instance.destroyed)
    throw new Error("hash was destroyed");
  if (checkFinished && instance.finished)
    throw new Error("digest() was already called");
}
function aoutput(out, instance) {
  abytes(out, void 0, "output");
  const min = instance.outputLen;
  if (!(out.length >= min)) {
    throw new RangeError('"output" expected length >= ' + min);
  }
}
function clean(...arrays) {
  for (let i = 0; i < arrays.length; i++) {
    arrays[i].fill(0);
  }
}
function createView(arr) {
  return new DataView(arr.buffer, arr.byteOffset, arr.byteLength);
}
function rotr(word, shift) {
  return word << 32 - shift | word >>> shift;
}
var hasHexBuiltin = /* @__PURE__ */ (() => (
  // @ts-ignore
  typeof Uint8Array.from([]).toHex === "function" && typeof Uint8Array.fromHex === "function"
))();
var hexes = /* @__PURE__ */ Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, "0"));
function bytesToHex(bytes2) {
  abytes(bytes2);
  if (hasHexBuiltin)
    return bytes2.toHex();
  let hex2 = "";
  for (let i = 0; i < bytes2.length; i++) {
    hex2 += hexes[bytes2[i]];
  }
  return hex2;
}
function asciiToBase16(ch) {
  return ch >= 48 && ch <= 57 ? ch - 48 : ch >= 65 && ch <= 70 ? ch - (65 - 10) : ch >= 97 && ch <= 102 ? ch - (97 - 10) : void 0;
}
function hexToBytes(hex2) {
  if (typeof hex2 !== "string")
    throw new TypeError("hex string expected, got " + typeof hex2);
  if (hasHexBuiltin) {
    try {
      return Uint8Array.fromHex(hex2);
    } catch (error) {
      if (error instanceof SyntaxError)
        throw new RangeError(error.message);
      throw error;
    }
  }
  const hl = hex2.length;
  const al = hl / 2;
  if (hl % 2)
    throw new RangeError("hex string expected, got unpadded hex of length " + hl);
  const array = new Uint8Array(al);
  for (let ai = 0, hi = 0; ai < al; ai++, hi += 2) {
    const n1 = asciiToBase16(hex2.charCodeAt(hi));
    const n2 = asciiToBase16(hex2.charCodeAt(hi + 1));
    if (n1 === void 0 || n2 === void 0) {
      const char = hex2[hi] + hex2[hi + 1];
      throw new RangeError('hex string expected, got non-hex character "' + char + '" at index ' + hi);
    }
    array[ai] = n1 * 16 + n2;
  }
  return array;
}
function checkOpts(defaults, opts, title = "opts") {
  aopts(defaults, "defaults");
  if (opts !== void 0)
    aopts(opts, title);
  const merged = Object.assign(/* @__PURE__ */ Object.create(null), defaults, opts);
  return merged;
}
function createHasher(hashCons, info = {}) {
  if (typeof hashCons !== "function")
    throw new TypeError('"hashCons" expected function, got type=' + typeof hashCons);
  info = checkOpts({}, info, "info");
  const hashC = (msg, opts) => hashCons(opts).update(msg).digest();
  const tmp = hashCons(void 0);
  hashC.outputLen = tmp.outputLen;
  hashC.blockLen = tmp.blockLen;
  hashC.canXOF = tmp.canXOF;
  hashC.create = (opts) => hashCons(opts);
  Object.assign(hashC, info);
  return Object.freeze(hashC);
}
var oidNist = (suffix) => ({
  // Current NIST hashAlgs suffixes used here fit in one DER subidentifier octet.
  // Larger suffix values would need base-128 OID encoding and a different length byte.
  oid: Uint8Array.from([6, 9, 96, 134, 72, 1, 101, 3, 4, 2, suffix])
});

// .tools/typescript/node_modules/@noble/hashes/_u64.js
var fromNumH = (n) => n / 2 ** 32 | 0;
var fromNumL = (n) => n >>> 0;
function setU64FromNum(view, byteOffset, n, isLE) {
  const h = fromNumH(n);
  const l = fromNumL(n);
  view.setUint32(byteOffset, isLE ? l : h, isLE);
  view.setUint32(byteOffset + 4, isLE ? h : l, isLE);
}

// .tools/typescript/node_modules/@noble/hashes/_md.js
function Chi(a, b, c) {
  return a & b ^ ~a & c;
}
function Maj(a, b, c) {
  return a & b ^ a & c ^ b & c;
}
var HashMD = class {
  blockLen;
  outputLen;
  canXOF = false;
  padOffset;
  isLE;
  // For partial updates less than block size
  buffer;
  view;
  finished = false;
  length = 0;
  pos = 0;
  destroyed = false;
  constructor(blockLen, outputLen, padOffset, isLE) {
    this.blockLen = blockLen;
    this.outputLen = outputLen;
    this.padOffset = padOffset;
    this.isLE = isLE;
    this.buffer = new Uint8Array(blockLen);
    this.view = createView(this.buffer);
  }
  update(data) {
    aexists(this);
    abytes(data);
    const { view, buffer, blockLen } = this;
    const len = data.length;
    let processed = false;
    for (let pos = 0; pos < len; ) {
      const take = Math.min(blockLen - this.pos, len - pos);
      if (take === blockLen) {
        const dataView = createView(data);
        for (; blockLen <= len - pos; pos += blockLen)
          this.process(dataView, pos);
        processed = true;
        continue;
      }
      buffer.set(pos === 0 && take === len ? data : data.subarray(pos, pos + take), this.pos);
      this.pos += take;
      pos += take;
      if (this.pos === blockLen) {
        this.process(view, 0);
        this.pos = 0;
        processed = true;
      }
    }
    this.length += data.length;
    if (processed)
      this.roundClean();
    return this;
  }
  digestInto(out) {
    aexists(this);
    aoutput(out, this);
    this.finished = true;
    const { buffer, view, blockLen, isLE } = this;
    let { pos } = this;
    buffer[pos++] = 128;
    buffer.fill(0, pos);
    if (this.padOffset > blockLen - pos) {
      this.process(view, 0);
      buffer.fill(0);
    }
    setU64FromNum(view, blockLen - 8, this.length * 8, isLE);
    this.process(view, 0);
    this.roundClean();
    const oview = out === buffer ? view : createView(out);
    const len = this.outputLen;
    const outLen = len / 4;
    const state = this.get();
    if (len % 4 || outLen > state.length)
      throw new Error("invalid outputLen");
    for (let i = 0; i < outLen; i++)
      oview.setUint32(4 * i, state[i], isLE);
  }
  digest() {
    const { buffer, outputLen } = this;
    this.digestInto(buffer);
    const res = buffer.slice(0, outputLen);
    this.destroy();
    return res;
  }
  _cloneIntoMeta(to) {
    const { buffer, length, finished, destroyed, pos } = this;
    to.destroyed = destroyed;
    to.finished = finished;
    to.length = length;
    to.pos = pos;
    if (pos)
      to.buffer.set(buffer);
    return to;
  }
  clone() {
    return this._cloneInto();
  }
};
var SHA256_IV = /* @__PURE__ */ Uint32Array.from([
  1779033703,
  3144134277,
  1013904242,
  2773480762,
  1359893119,
  2600822924,
  528734635,
  1541459225
]);

// .tools/typescript/node_modules/@noble/hashes/sha2.js
var SHA256_K = /* @__PURE__ */ Uint32Array.from([
  1116352408,
  1899447441,
  3049323471,
  3921009573,
  961987163,
  1508970993,
  2453635748,
  2870763221,
  3624381080,
  310598401,
  607225278,
  1426881987,
  1925078388,
  2162078206,
  2614888103,
  3248222580,
  3835390401,
  4022224774,
  264347078,
  604807628,
  770255983,
  1249150122,
  1555081692,
  1996064986,
  2554220882,
  2821834349,
  2952996808,
  3210313671,
  3336571891,
  3584528711,
  113926993,
  338241895,
  666307205,
  773529912,
  1294757372,
  1396182291,
  1695183700,
  1986661051,
  2177026350,
  2456956037,
  2730485921,
  2820302411,
  3259730800,
  3345764771,
  3516065817,
  3600352804,
  4094571909,
  275423344,
  430227734,
  506948616,
  659060556,
  883997877,
  958139571,
  1322822218,
  1537002063,
  1747873779,
  1955562222,
  2024104815,
  2227730452,
  2361852424,
  2428436474,
  2756734187,
  3204031479,
  3329325298
]);
var SHA256_W = /* @__PURE__ */ new Uint32Array(64);
var SHA2_32B = class extends HashMD {
  // We cannot use array here since array allows indexing by variable
  // which means optimizer/compiler cannot use registers.
  // Numeric initializers matter: starting the fields as `undefined` changes
  // V8's field representation and makes sha256 3x slower (measured).
  A = 0;
  B = 0;
  C = 0;
  D = 0;
  E = 0;
  F = 0;
  G = 0;
  H = 0;
  constructor(outputLen, IV) {
    super(64, outputLen, 8, false);
    this.A = IV[0] | 0;
    this.B = IV[1] | 0;
    this.C = IV[2] | 0;
    this.D = IV[3] | 0;
    this.E = IV[4] | 0;
    this.F = IV[5] | 0;
    this.G = IV[6] | 0;
    this.H = IV[7] | 0;
  }
  get() {
    const { A, B, C, D, E, F, G, H } = this;
    return [A, B, C, D, E, F, G, H];
  }
  // prettier-ignore
  set(A, B, C, D, E, F, G, H) {
    this.A = A | 0;
    this.B = B | 0;
    this.C = C | 0;
    this.D = D | 0;
    this.E = E | 0;
    this.F = F | 0;
    this.G = G | 0;
    this.H = H | 0;
  }
  _cloneInto(to) {
    (to ||= new this.constructor()).set(...this.get());
    return this._cloneIntoMeta(to);
  }
  process(view, offset) {
    for (let i = 0; i < 16; i++, offset += 4)
      SHA256_W[i] = view.getUint32(offset, false);
    for (let i = 16; i < 64; i++) {
      const W15 = SHA256_W[i - 15];
      const W2 = SHA256_W[i - 2];
      const s0 = rotr(W15, 7) ^ rotr(W15, 18) ^ W15 >>> 3;
      const s1 = rotr(W2, 17) ^ rotr(W2, 19) ^ W2 >>> 10;
      SHA256_W[i] = s1 + SHA256_W[i - 7] + s0 + SHA256_W[i - 16] | 0;
    }
    let { A, B, C, D, E, F, G, H } = this;
    for (let i = 0; i < 64; i++) {
      const sigma1 = rotr(E, 6) ^ rotr(E, 11) ^ rotr(E, 25);
      const T1 = H + sigma1 + Chi(E, F, G) + SHA256_K[i] + SHA256_W[i] | 0;
      const sigma0 = rotr(A, 2) ^ rotr(A, 13) ^ rotr(A, 22);
      const T2 = sigma0 + Maj(A, B, C) | 0;
      H = G;
      G = F;
      F = E;
      E = D + T1 | 0;
      D = C;
      C = B;
      B = A;
      A = T1 + T2 | 0;
    }
    A = A + this.A | 0;
    B = B + this.B | 0;
    C = C + this.C | 0;
    D = D + this.D | 0;
    E = E + this.E | 0;
    F = F + this.F | 0;
    G = G + this.G | 0;
    H = H + this.H | 0;
    this.set(A, B, C, D, E, F, G, H);
  }
  roundClean() {
    clean(SHA256_W);
  }
  destroy() {
    this.destroyed = true;
    this.set(0, 0, 0, 0, 0, 0, 0, 0);
    clean(this.buffer);
  }
};
var _SHA256 = class extends SHA2_32B {
  constructor() {
    super(32, SHA256_IV);
  }
};
var sha256 = /* @__PURE__ */ createHasher(
  () => new _SHA256(),
  /* @__PURE__ */ oidNist(1)
);

// infra/clients/typescript/src/bytes.ts
var encoder = new TextEncoder();
var decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
var utf8 = (text2) => encoder.encode(text2);
var textOf = (data) => decoder.decode(data);
var hex = (data) => bytesToHex(data);
var fromHex = (text2) => new Uint8Array(hexToBytes(text2));
function concat(...parts) {
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
function hash(...parts) {
  const running = sha256.create();
  for (const part of parts) running.update(part);
  return new Uint8Array(running.digest());
}
function compare(one, other) {
  const size = Math.min(one.length, other.length);
  for (let at = 0; at < size; at += 1) {
    const difference = (one[at] ?? 0) - (other[at] ?? 0);
    if (difference) return difference;
  }
  return one.length - other.length;
}
var equal = (one, other) => compare(one, other) === 0;
var CHUNK = 32768;
function toBase64(data) {
  let binary = "";
  for (let at = 0; at < data.length; at += CHUNK) {
    binary += String.fromCharCode(...data.subarray(at, at + CHUNK));
  }
  return btoa(binary);
}
function fromBase64(text2) {
  if (typeof text2 !== "string") return null;
  let binary;
  try {
    binary = atob(text2);
  } catch {
    return null;
  }
  if (btoa(binary) !== text2) return null;
  const data = new Uint8Array(binary.length);
  for (let at = 0; at < data.length; at += 1) data[at] = binary.charCodeAt(at);
  return data;
}

// infra/clients/typescript/src/cbor.ts
var Malformed = class extends Error {
};
var NUMBER_MAX = 2 ** 53;
var DEPTH_MAX = 16;
var SIMPLE = { 244: false, 245: true, 246: null };
function malformed() {
  throw new Malformed("not CBOR as the formats have it");
}
var Reader = class {
  constructor(data, isStrict) {
    this.data = data;
    this.isStrict = isStrict;
  }
  data;
  isStrict;
  at = 0;
  item(depth) {
    if (depth > DEPTH_MAX) return malformed();
    const [first = 0] = this.take(1);
    const kind = first >> 5;
    if (first in SIMPLE) return SIMPLE[first];
    const size = this.argument(first & 31);
    if (kind === 0) return size;
    if (kind === 1) return typeof size === "number" ? -1 - size : -1n - size;
    if (typeof size === "bigint") return malformed();
    if (kind === 2) return this.take(size);
    if (kind === 3) return this.text(size);
    if (kind > 5) return malformed();
    return kind === 4 ? this.list(size, depth + 1) : this.map(size, depth + 1);
  }
  take(size) {
    const end = this.at + size;
    if (end > this.data.length) return malformed();
    const taken = this.data.subarray(this.at, end);
    this.at = end;
    return taken;
  }
  argument(short) {
    if (short < 24) return short;
    if (short > 27) return malformed();
    const size = 1 << short - 24;
    let value = 0n;
    for (const byte of this.take(size)) value = value << 8n | BigInt(byte);
    const least = size === 1 ? 24n : 1n << BigInt(4 * size);
    if (this.isStrict && value < least) return malformed();
    return value > BigInt(NUMBER_MAX) ? value : Number(value);
  }
  text(size) {
    const bytes2 = this.take(size);
    try {
      return textOf(bytes2);
    } catch {
      return malformed();
    }
  }
  list(size, depth) {
    const items2 = [];
    while (items2.length < size) items2.push(this.item(depth));
    return items2;
  }
  map(size, depth) {
    const members = /* @__PURE__ */ new Map();
    let last = null;
    for (let left = size; left > 0; left -= 1) {
      const start = this.at;
      const key = this.item(depth);
      const bytes2 = this.data.subarray(start, this.at);
      if (typeof key !== "string" || members.has(key)) return malformed();
      if (this.isStrict && last && compare(last, bytes2) >= 0) return malformed();
      members.set(key, this.item(depth));
      last = bytes2;
    }
    return members;
  }
};
function decode(data, isStrict = true) {
  const reader = new Reader(data, isStrict);
  const value = reader.item(0);
  return reader.at === data.length && value instanceof Map ? value : malformed();
}
function header(kind, size) {
  if (size < 24) return Uint8Array.of(kind << 5 | size);
  const power = [8, 16, 32, 64].findIndex((bits) => size < 2 ** bits);
  const data = new Uint8Array(1 + (1 << power));
  data[0] = kind << 5 | 24 + power;
  let left = BigInt(size);
  for (let at = data.length - 1; at > 0; at -= 1, left >>= 8n) data[at] = Number(left & 255n);
  return data;
}
function encode(value) {
  if (value === null) return Uint8Array.of(246);
  if (typeof value === "boolean") return Uint8Array.of(value ? 245 : 244);
  if (typeof value === "number") return header(0, value);
  if (typeof value === "bigint") throw new RangeError(`${value} is above 2^53`);
  if (typeof value === "string") {
    const data = utf8(value);
    return concat(header(3, data.length), data);
  }
  if (value instanceof Uint8Array) return concat(header(2, value.length), value);
  if (Array.isArray(value)) return concat(header(4, value.length), ...value.map(encode));
  const members = [...value].map(([name, each]) => [encode(name), encode(each)]);
  members.sort(([one], [other]) => compare(one, other));
  return concat(header(5, members.length), ...members.flat());
}
function member(members, name, is) {
  const value = members.get(name);
  if (value === void 0 || !is(value)) throw new Malformed(`${name} is missing, or of another type`);
  return value;
}
var isMap = (value) => value instanceof Map;
var isText = (value) => typeof value === "string";
var isBytes2 = (value) => value instanceof Uint8Array;
var isNumber = (value) => typeof value === "number" && value >= 0;
var table = (members, name) => member(members, name, isMap);
var text = (members, name) => member(members, name, isText);
var number = (members, name) => member(members, name, isNumber);
var bytes = (members, name, size) => {
  const found = member(members, name, isBytes2);
  need(size === void 0 || found.length === size, `${name} must have ${size} bytes`);
  return new Uint8Array(found);
};
var digest = (members, name) => bytes(members, name, 32);
function items(members, name, is) {
  return member(members, name, (value) => Array.isArray(value) && value.every(is));
}
var tables = (members, name) => items(members, name, isMap);
var texts = (members, name) => items(members, name, isText);
var blobs = (members, name) => items(members, name, isBytes2);
function optional(members, name, read) {
  return members.has(name) ? read(members, name) : null;
}
function need(holds, message) {
  if (!holds) throw new Malformed(message);
}
function rising(values, name) {
  let last = null;
  for (const value of values) {
    const each = typeof value === "string" ? utf8(value) : value;
    need(last === null || compare(last, each) < 0, `${name} is not sorted, or has a value twice`);
    last = each;
  }
}
var MOMENT = /^(?!0000)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;
function moment(members, name) {
  const written = text(members, name);
  const at = MOMENT.test(written) ? Date.parse(written) : Number.NaN;
  need(!Number.isNaN(at) && momentOf(at) === written, `${name} is no time`);
  return at;
}
var momentOf = (at) => `${new Date(at).toISOString().slice(0, 19)}Z`;

// infra/clients/typescript/src/ed25519.ts
var P = 2n ** 255n - 19n;
var Y8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022n;
var SMALL = /* @__PURE__ */ new Set([0n, 1n, P - 1n, Y8, P - Y8]);
var NoEd25519 = class extends Error {
  constructor(cause) {
    super("this runtime cannot check Ed25519: use a newer one, and in a browser https or localhost", { cause });
  }
};
function isSafe(key) {
  if (key.length !== 32) return false;
  const y = BigInt(`0x${hex(key.slice().reverse())}`) & 2n ** 255n - 1n;
  return !SMALL.has(y % P);
}
function keyOf(members, name) {
  const key = bytes(members, name, 32);
  need(isSafe(key), `${name} is of small order`);
  return key;
}
async function isSigned(data, signature, key) {
  let imported;
  try {
    imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    if (error.name === "DataError") return false;
    throw new NoEd25519(error);
  }
  return crypto.subtle.verify({ name: "Ed25519" }, imported, signature, data);
}

// infra/clients/typescript/src/wire.ts
var Refused = class extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
  reason;
};
function refuse(reason) {
  throw new Refused(reason);
}
function check(holds, reason) {
  if (!holds) refuse(reason);
}
function reading(read) {
  try {
    return read();
  } catch (error) {
    if (error instanceof Malformed) return refuse("malformed");
    throw error;
  }
}
var ANSWER_MAX = 4 * 2 ** 20;
var FUTURE_MAX = 3e4;
var DEPTH_MAX2 = 64;
var WARRANT_ID = /^svc_wrt_[A-Za-z0-9_-]{1,64}$/;
var areWarrantIds = (ids) => ids.length > 0 && ids.every((id) => typeof id === "string" && WARRANT_ID.test(id));
var asObject = (value) => typeof value === "object" && value !== null ? value : refuse("malformed");
var listOf = (value, read) => Array.isArray(value) ? value.map(read) : refuse("malformed");
function depthOf(body) {
  let depth = 0, deepest = 0, isText2 = false;
  for (let at = 0; at < body.length; at += 1) {
    const each = String.fromCharCode(body[at]);
    if (each === '"') isText2 = !isText2;
    else if (isText2) at += each === "\\" ? 1 : 0;
    else if (each === "[" || each === "{") deepest = Math.max(deepest, depth += 1);
    else if (each === "]" || each === "}") depth -= 1;
  }
  return deepest;
}
function json(body, most) {
  check(body.length <= most, "too_large");
  check(depthOf(body) <= DEPTH_MAX2, "malformed");
  try {
    return asObject(JSON.parse(textOf(body)));
  } catch {
    return refuse("malformed");
  }
}
function base64(value) {
  return fromBase64(value) ?? refuse("malformed");
}
var member2 = (value, name) => asObject(value)[name];
var positionOf = (members) => ({
  sequence: number(members, "Sequence"),
  chain: digest(members, "Chain")
});

// infra/clients/typescript/src/trust.ts
var TRUST_MAX = 6 * 2 ** 20;
var DOCUMENTS_MAX = 64;
var DOCUMENT_MAX = 65536;
var SIGNATURES_MAX = 16;
var SIGNERS_MAX = 256;
var ROOTS_MAX = 8;
var LIFETIME_MAX = 400 * 864e5;
var PIN = /^[0-9a-f]{64}$/;
var isPin = (text2) => PIN.test(text2);
function pinned(tenant, pin) {
  if (!isPin(pin)) throw new TypeError("trustPin must be the 64 digits that `rescind trust show` prints");
  return { tenant, pin, held: null };
}
function resumeBelief(belief, { pin, held }) {
  const follows = belief.pin === pin || belief.pin === held?.roots.pin;
  return follows ? { ...belief, held } : belief;
}
function rootsOf(members) {
  const keys = blobs(members, "Keys").map((key) => new Uint8Array(key));
  const threshold = number(members, "Threshold");
  need(keys.every(isSafe), "Keys must be of Ed25519");
  rising(keys, "Keys");
  need(threshold >= 1 && threshold <= keys.length, "Threshold must be 1 to the number of keys");
  need(keys.length <= ROOTS_MAX, "Roots has too many keys");
  need(members.size === 2, "Roots must have no other member");
  return { keys, threshold, pin: hex(hash(utf8("rescind-roots-v1\n"), encode(members))) };
}
function signersOf(members) {
  const signers = tables(members, "Signers").map((each) => ({ key: keyOf(each, "Key"), uses: texts(each, "Uses") }));
  for (const { uses } of signers) {
    need(uses.length > 0, "Uses is empty");
    rising(uses, "Uses");
  }
  need(signers.length <= SIGNERS_MAX, "there are too many signers");
  rising(signers.map(({ key }) => key), "Signers");
  return signers;
}
function logOf(members, name) {
  const log = table(members, name);
  return { origin: text(log, "Origin"), size: number(log, "Size"), root: digest(log, "Root") };
}
function checkWitnesses(members) {
  optional(members, "Witnesses", (_, name) => {
    const witnesses = table(members, name), keys = texts(witnesses, "Keys");
    rising(keys, "Keys");
    need(number(witnesses, "Quorum") <= keys.length, "Quorum is above the number of witnesses");
  });
}
function readDocument(payload, signatures) {
  check(payload.length <= DOCUMENT_MAX, "too_large");
  check(signatures.size <= SIGNATURES_MAX, "too_large");
  return reading(() => {
    const members = decode(payload), roots = rootsOf(table(members, "Roots")), signers = signersOf(members);
    checkWitnesses(members);
    const rootKeys = new Set(roots.keys.map(hex));
    need(!signers.some(({ key }) => rootKeys.has(hex(key))), "a root signs nothing but documents");
    const version = number(members, "Version");
    need(version >= 1, "Version must be 1 or more");
    return {
      payload,
      signatures,
      hash: hash(payload),
      tenant: text(members, "Tenant"),
      version,
      issuedAt: moment(members, "IssuedAt"),
      expiresAt: moment(members, "ExpiresAt"),
      roots,
      signers,
      feed: positionOf(table(members, "Feed")),
      signingKeys: optional(members, "SigningKeys", digest),
      log: optional(members, "Log", logOf)
    };
  });
}
function readDocuments(body) {
  const given = listOf(json(body, TRUST_MAX)["documents"], (each) => {
    const forms = listOf(member2(each, "Signatures"), (one) => {
      return [hex(base64(member2(one, "Key"))), base64(member2(one, "Signature"))];
    });
    const signatures = new Map(forms);
    check(signatures.size === forms.length, "malformed");
    return [base64(member2(each, "Payload")), signatures];
  });
  check(given.length <= DOCUMENTS_MAX, "too_large");
  return given.map(([payload, signatures]) => readDocument(payload, signatures));
}
function writeDocument({ payload, signatures }) {
  const forms = [...signatures].map(([key, signature]) => ({
    Key: toBase64(fromHex(key)),
    Signature: toBase64(signature)
  }));
  return JSON.stringify({ documents: [{ Payload: toBase64(payload), Signatures: forms }] });
}
async function signed(document, { keys, threshold }) {
  const part = concat(utf8("rescind-trust-v1\n"), document.hash);
  let left = threshold;
  for (const key of keys) {
    const signature = document.signatures.get(hex(key));
    if (signature && await isSigned(part, signature, key)) left -= 1;
  }
  return left <= 0 ? document : refuse("root");
}
async function after(held, next, pin) {
  if (!held) return next.roots.pin === pin ? signed(next, next.roots) : null;
  if (next.version < held.version || equal(next.payload, held.payload)) return held;
  await signed(next, held.roots);
  check(next.version > held.version, "equivocation");
  return signed(next, next.roots);
}
async function followed(belief, documents, now) {
  const last = documents.at(-1);
  if (!last) return belief;
  check(documents.every((each) => each.tenant === belief.tenant), "tenant");
  let held = belief.held;
  for (const each of documents) held = await after(held, each, belief.pin);
  if (!held) return refuse("root");
  check(last.version >= held.version, "rollback");
  if (held === belief.held) return belief;
  const lifetime = held.expiresAt - held.issuedAt;
  check(lifetime > 0 && lifetime <= LIFETIME_MAX, "lifetime");
  check(held.issuedAt - now <= FUTURE_MAX, "future");
  return { ...belief, held };
}
var findKeys = (held, use) => (held?.signers ?? []).filter(({ uses }) => uses.includes(use)).map(({ key }) => key);
var findValidKeys = (held, use, now) => isExpired(held, now) ? refuse("trust_expired") : findKeys(held, use);
var isExpired = ({ expiresAt }, now) => now >= expiresAt;
export {
  Malformed,
  NoEd25519,
  Refused,
  areWarrantIds,
  concat,
  decode,
  findKeys,
  findValidKeys,
  followed,
  fromBase64,
  hash,
  isPin,
  isSafe,
  isSigned,
  moment,
  pinned,
  readDocuments,
  resumeBelief,
  texts,
  toBase64,
  utf8,
  writeDocument
};
