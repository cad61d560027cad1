/** The page of authorizers, grouped by their response to a revoked warrant. */

import { isSilent, quietAfter } from '../authorizers.js'
import { now, remove } from '../api.js'
import { count, number, span } from '../format.js'
import { html, put, svg } from '../html.js'
import { subscribe, ownerOf, readCached } from '../store.js'
import { confirm } from '../components/dialog.js'
import { button, copy, heading, userText, person, ready, when } from '../components/panel.js'
import { icon, tag } from '../components/tag.js'
import { exactTime, thing } from '../components/timeline.js'
import { hasScope } from '../session.js'
import { Table } from '../table.js'

/** @typedef {Api.Authorizer} Authorizer */
/** @typedef {Api.FleetSummary} Summary */

const SUMMARY = '/v1/authorizers/summary'
const ALL = '/v1/authorizers?include=enforcement'
/**
 * Seconds between reads of the counts, and of the rows. If they disagree, rows are also read at the shorter interval.
 */
const [OFTEN, SELDOM] = [2, 15]
const STATES = /** @type {const} */ (['unknown', 'fail_closed', 'enforced'])

export const title = 'Authorizers'

/** @type {import('../app.js').Page['show']} */
export const show = async (main, context) => {
  const [id] = context.route.parts
  const of = { title, href: '#/authorizers', noun: 'authorizer' }
  if (id) return subscribe(() => put(main, thing(`/v1/authorizers/${id}`, OFTEN, of, detail)), context.signal)
  const table = new Table(fleet(), context)
  subscribe(() => {
    const counted = readCached(SUMMARY, OFTEN)
    const known = readCached(ALL, SELDOM, 'authorizers')
    if (known.at && !agrees(known.data, counted.data)) readCached(ALL, OFTEN, 'authorizers')
    put(main, heading(title, sentence(counted.data)), bar(counted.data), table.element)
    size = known.data?.length ?? 0
    table.draw(known)
    if (known.at || known.error) ready()
  }, context.signal)
}

/**
 * Return whether the rows agree with the counts.
 * @param {Authorizer[]} rows
 * @param {Summary | null} counts
 */
function agrees(rows, counts) {
  const sizeOf = (/** @type {string} */ state) => rows.filter(({ enforcement }) => enforcement === state).length
  return !counts || STATES.every((state) => sizeOf(state) === counts[state])
}

/** @param {Summary | null} counted */
function sentence(counted) {
  if (!counted?.total) return null
  const { total: registered, enforced, fail_closed: closed, unknown, sequence } = counted
  return html`<strong class=${unknown ? 'state open' : null}
      >${unknown ? number(unknown) : 'None'} of ${number(registered)}</strong
    >
    may accept a revoked warrant. ${number(enforced)} ${enforced === 1 ? 'enforces' : 'enforce'} entry
    ${number(sequence ?? 0)}, the newest; ${number(closed)} ${closed === 1 ? 'is' : 'are'} failing closed.`
}

/** Return a bar with the share of authorizers in each state. @param {Summary | null} counted */
function bar(counted) {
  if (!counted?.total) return null
  let x = 0
  const looks = { enforced: 'force', fail_closed: 'closed', unknown: 'open' }
  const pieces = STATES.toReversed()
    .filter((enforcement) => counted[enforcement] > 0)
    .map((enforcement) => {
      const width = Math.max(6, (1000 * counted[enforcement]) / counted.total)
      x += width
      return svg`<rect class=${`fill ${looks[enforcement]}`} x=${x - width} width=${width - 2} height="6"/>`
    })
  const box = `0 0 ${x - 2} 6`
  return html`<svg class="strip" viewBox=${box} preserveAspectRatio="none" aria-hidden="true">${pieces}</svg>`
}

/** @returns {import('../table.js').Spec} */
const fleet = () => ({
  id: 'authorizers',
  noun: 'authorizers',
  sort: '-lag',
  mark: 'state',
  groups: [
    {
      title: 'May accept revoked warrants',
      state: 'open',
      note: 'not proven to enforce the newest entry, and not stale yet',
    },
    { title: 'Failing closed', state: 'closed', note: 'stale: they refuse all warrants until they reach the service' },
    { title: 'Up to date', state: 'force' },
  ],
  group: ({ enforcement }) => STATES.indexOf(enforcement),
  open: ({ id }) => `#/authorizers/${id}`,
  columns: [
    {
      id: 'state',
      title: 'State',
      width: '168px',
      text: ({ enforcement }) => enforcement,
      value: ({ enforcement }) => STATES.indexOf(enforcement),
      cell: state,
    },
    { id: 'name', title: 'Name', lead: true, width: 'minmax(160px, 2fr)', kind: 'name' },
    {
      id: 'lag',
      title: 'Lag',
      width: '112px',
      kind: 'number',
      value: ({ lag_entries }) => lag_entries ?? Infinity,
      text: ({ lag_entries }) => String(lag_entries ?? ''),
      cell: lag,
    },
    {
      id: 'fails_closed',
      title: 'Fails closed at',
      width: '148px',
      from: 820,
      value: ({ fail_closed_at }) => fail_closed_at ?? null,
      cell: ({ enforcement, fail_closed_at: from }) => {
        if (enforcement === 'enforced') return '–'
        return from ? exactTime(from) : html`<span class="state open">no limit known</span>`
      },
    },
    { id: 'last_seen', title: 'Last seen', width: '116px', of: 'last_seen_at', kind: 'time' },
    {
      id: 'version',
      title: 'Version',
      width: '80px',
      from: 980,
      value: ({ version }) => version ?? '',
      cell: ({ version }) => html`<code>${version}</code>`,
      is: isVersion,
    },
    { id: 'owner', title: 'Owner', width: 'minmax(96px, 1fr)', from: 900, value: ({ owner }) => ownerOf(owner) },
    { id: 'stale', title: 'When stale', text: ({ fail_open }) => (fail_open ? 'fails open' : 'fails closed') },
    { id: 'relay', title: 'Relay', text: ({ relay }) => relay ?? '' },
    { id: 'program', title: 'Program', text: ({ type }) => type ?? '' },
    { id: 'heartbeat', title: 'Heartbeat', text: (each) => (isSilent(each, now(), size) ? 'missed' : 'regular') },
    {
      id: 'rejected',
      title: 'Rejected responses',
      text: ({ refused }) =>
        Object.entries(refused)
          .map(([reason, times]) => `${times} ${reason}`)
          .join(', '),
    },
  ],
  sub: ({ enforcement, lag_entries: by, last_seen_at: at, owner, fail_open: open }) => [
    enforcement !== 'enforced' && (by === undefined ? 'never reported · ' : `lag ${count(by, 'entry', 'entries')} · `),
    html`${when(at)} · <bdi>${ownerOf(owner)}</bdi>`,
    open && html` · <b class="state wait">fails open</b>`,
  ],
  facets: (rows) => {
    const newest = rows
      .map(({ version }) => /^\d+\.\d+/.exec(version ?? '')?.[0] ?? '')
      .reduce((one, other) => (names.compare(one, other) < 0 ? other : one), '')
    return [
      { title: 'Not enforcing', query: 'state:unknown', state: 'open' },
      { title: 'Failing closed', query: 'state:fail_closed', state: 'closed' },
      { title: 'Up to date', query: 'state:enforced', state: 'force' },
      { title: 'Fails open', query: 'stale:open' },
      { title: 'Missed heartbeat', query: 'heartbeat:missed' },
      { title: 'Rejected responses', query: 'rejected:1' },
      ...(newest ? [{ title: `Older than ${newest}`, query: `version:<${newest}` }] : []),
    ]
  },
  bulk: hasScope() ? [{ title: 'Remove…', run: removeAll }] : [],
  actions,
  empty: html`<h2>No authorizer has registered yet</h2>
    <p>
      An authorizer is a program that accepts or refuses warrants. It appears here seconds after it starts with an API
      key:
    </p>
    <pre>rescind api-keys create gateway --scope authorizer --secret-file gateway.key</pre>
    ${
      hasScope() &&
      html`<p>
        ${button('Connect an authorizer…', () => import('./first_steps.js').then(({ connect }) => connect()), 'main')}
      </p>`
    }`,
})

/** Size of the fleet, which determines when a heartbeat is missing. */
let size = 0
const names = new Intl.Collator('en', { numeric: true })

/** @param {Authorizer} authorizer @param {string} wanted part of a version, or `<` and a later version */
const isVersion = ({ version }, wanted) =>
  wanted.startsWith('<')
    ? Boolean(version) && names.compare(/** @type {string} */ (version), wanted.slice(1)) < 0
    : (version ?? '').includes(wanted)

/** @param {Authorizer} authorizer */
function state({ enforcement, sequence, equivocation }) {
  if (enforcement === 'enforced') return html`<span class="soft">${icon('force')} up to date</span>`
  if (enforcement === 'fail_closed') return tag('closed', 'failing closed')
  return tag('open', equivocation ? 'conflicting entries' : sequence === null ? 'never reported' : 'not enforcing')
}

/** @param {Authorizer} authorizer */
function lag({ lag_entries: entries, equivocation }) {
  if (entries === undefined || equivocation) return '–'
  return entries
    ? html`${number(entries)} <span class="soft">${entries === 1 ? 'entry' : 'entries'}</span>`
    : html`<span class="soft">none</span>`
}

/** @param {Authorizer} each @returns {import('../components/timeline.js').Thing} */
function detail(each) {
  const newest = readCached(SUMMARY, OFTEN).data?.sequence ?? 0
  const rejected = Object.entries(each.refused)
  return {
    name: each.name,
    actions: actions(each),
    known: [
      ['Reported', reported(each, newest)],
      ['Identifier', html`<code>${each.id}</code>`],
      ['Program', [each.type ?? 'not reported', each.version && `, version ${each.version}`]],
      ['Registered', html`${when(each.registered_at)} by ${person(each.owner, ownerOf(each.owner))}`],
      [
        'Last seen',
        html`${when(each.last_seen_at)}${each.relay && html`, through the relay <bdi>${each.relay}</bdi>`}. A heartbeat
        counts as missed after ${span(quietAfter(1))}.`,
      ],
      ['Last verified', when(each.verified_at, 'not reported')],
      [
        'Staleness limit',
        each.max_staleness_seconds === null
          ? 'not reported'
          : `${span(each.max_staleness_seconds)}, then it ${each.fail_open ? 'fails open' : 'fails closed'}`,
      ],
      [
        'Rejected responses',
        rejected.length
          ? rejected.map(([reason, times]) => html`<div>${number(Number(times))} × <code>${reason}</code></div>`)
          : 'none',
      ],
      ...Object.entries(each.metadata).map(([name, text]) => /** @type {[string, unknown]} */ ([name, userText(text)])),
    ],
  }
}

/** @param {Authorizer} each */
const actions = (each) => [
  { title: 'Copy identifier', run: () => copy(each.id) },
  hasScope() && { title: 'Remove…', run: () => removeAll([each]), danger: true },
]

/**
 * Describe the state that an authorizer reported.
 * @param {Authorizer} authorizer
 * @param {number} newest
 */
function reported({ equivocation, sequence }, newest) {
  if (equivocation) return tag('revoked', 'conflicting entries')
  if (sequence === null) return tag('unknown', 'nothing yet')
  return sequence >= newest
    ? tag('force', `entry ${number(sequence)}`)
    : tag('wait', `entry ${number(sequence)}, lag ${count(newest - sequence, 'entry', 'entries')}`)
}

/** Ask for confirmation, and remove these authorizers. @param {Authorizer[]} authorizers */
async function removeAll(authorizers) {
  const [only] = authorizers
  const isOne = authorizers.length === 1
  const name = isOne && only ? only.name : `${number(authorizers.length)} authorizers`
  const done = await confirm({
    title: isOne ? 'Remove authorizer' : 'Remove authorizers',
    action: `Remove ${name}`,
    danger: true,
    body: html`<p>
      <bdi>${name}</bdi> will no longer count in the propagation of revocations. Removal does not stop an authorizer
      that still runs. To stop it, revoke its API key.
    </p>`,
    run: async () => {
      for (const { id } of authorizers) await remove(`/v1/authorizers/${id}`)
    },
    success: isOne ? 'Authorizer removed.' : `${name} removed.`,
  })
  if (done && location.hash === `#/authorizers/${only?.id}`) location.hash = '#/authorizers'
}
