/** Dialog that revokes many warrants under one batch. */

import { ApiError } from '../api.js'
import { count, number } from '../format.js'
import { html, one, put } from '../html.js'
import { hasScope } from '../session.js'
import { Run } from './batch.js'
import { decodeText, Unreadable, formatCsv } from './csv.js'
import { field, submitted, tick } from './dialog.js'
import { advice, announce, banner, button, forbidden, heading, userText, problem, ready } from './panel.js'
import { download } from './progress.js'
import { MOST, MOST_BYTES, read } from './warrant_lines.js'

/** @typedef {import('./warrant_lines.js').WarrantLines} Lines */
/** @typedef {import('./warrant_lines.js').Warrant} Warrant */
/** @typedef {import('./warrant_lines.js').BadLine} BadLine */
/** @typedef {{warrants: Warrant[], bad: BadLine[], check: Run}} Input the input, and the result of the check */

const SHOWN = 100

/**
 * @param {HTMLElement} main
 * @param {AbortSignal} signal
 */
export async function showMany(main, signal) {
  const isAllowed = hasScope('revoker')
  const words = 'The service previews the result first. Nothing changes until you press Revoke.'
  put(
    main,
    html`<p><a href="#/revocations">Revocations</a></p>`,
    heading('Revoke many warrants', isAllowed && words),
    isAllowed ? new Many(signal).element : forbidden('revoke', 'revoker or admin'),
  )
  ready()
}

/** The form, the check, and the run. */
class Many {
  element = one(html`<div class="body"></div>`)
  #progress = one(html`<div class="body"></div>`)
  /** @type {{name: string, size: number, text: string} | null} */
  #file = null
  #isBusy = false

  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.signal = signal
    const drop = (/** @type {DragEvent} */ event) => {
      event.preventDefault()
      void this.#take(event.dataTransfer?.files)
    }
    // On the whole page, because a browser would leave the page for a file that is dropped outside the form.
    addEventListener('dragover', (event) => event.preventDefault(), { signal })
    addEventListener('drop', drop, { signal })
    this.#become()
  }

  /**
   * Draw the form with a message below it. The form is read-only during a call.
   * @param {{fault?: unknown, result?: unknown, isBusy?: boolean}} [what]
   */
  #become({ fault = null, result = null, isBusy = false } = {}) {
    this.#isBusy = isBusy
    put(
      this.element,
      html`<form
        class="panel"
        ?inert=${isBusy}
        @input=${() => this.#become()}
        @submit=${submitted((form) => this.#check(form))}
      >
        <div role="status">${this.#file && this.#chosen(this.#file)}</div>
        <div class="body" ?hidden=${this.#file !== null}>${this.#typed()}</div>
        ${field(
          'Reason',
          html`<textarea name="reason" rows="2" maxlength="1024" dir="auto"></textarea>`,
          'Applies to each warrant without its own reason.',
        )}
        <div>${fault}</div>
        <div class="actions"><button class="main">Dry run</button></div>
      </form>`,
      result,
    )
    this.element.querySelector('h2')?.focus()
  }

  #typed() {
    const choose = (/** @type {Event} */ { target }) => {
      const input = /** @type {HTMLInputElement} */ (target)
      void this.#take(input.files)
      input.value = ''
    }
    return [
      field(
        'Warrants',
        html`<textarea
          name="text"
          rows="8"
          spellcheck="false"
          autocomplete="off"
          placeholder="svc_wrt_laptop-17"
        ></textarea>`,
        'One identifier per line, or CSV with the column warrant_id and, optionally, reason. ' +
          `At most ${number(MOST)} rows. You can drop a file here.`,
      ),
      field(
        'Or select a file',
        html`<input type="file" accept=".csv,.txt,.tsv,text/csv,text/plain" @change=${choose} />`,
      ),
    ]
  }

  /** @param {{name: string, size: number}} file */
  #chosen({ name, size }) {
    const leave = () => {
      this.#file = null
      this.#become()
      this.element.querySelector('textarea')?.focus()
    }
    return html`<div class="head">
      <div>
        <strong>Warrants from the file</strong> <bdi>${name}</bdi>
        <p class="soft">${count(size, 'byte')}</p>
      </div>
      ${button('Remove file', leave)}
    </div>`
  }

  /** @param {FileList | null} [files] */
  async #take(files) {
    const file = files?.[0]
    if (!file || this.#isBusy) return
    try {
      if (file.size > MOST_BYTES)
        throw new Unreadable(`The file is larger than ${MOST_BYTES / 1_000_000} MB. Split it.`)
      const text = decodeText(new Uint8Array(await file.arrayBuffer()))
      this.#file = { name: file.name, size: file.size, text }
      this.#become()
    } catch (error) {
      this.#refuse(error)
    }
  }

  /** @param {unknown} error */
  #refuse(error) {
    if (!(error instanceof Unreadable)) throw error
    this.#become({ fault: banner('wait', html`<strong>The input cannot be read.</strong> ${error.message}`) })
  }

  /** @param {FormData} form */
  async #check(form) {
    const reason = String(form.get('reason')).trim()
    /** @type {Lines} */
    let lines
    try {
      lines = read(this.#file?.text ?? String(form.get('text')))
    } catch (error) {
      return this.#refuse(error)
    }
    const bare = lines.warrants.find((each) => each.reason === null)
    if (!reason && bare) {
      const more = `: the warrant on line ${bare.line} has none`
      this.#become({ fault: banner('wait', `Enter a reason${lines.hasReasons ? more : ''}.`) })
      return /** @type {HTMLElement} */ (this.element.querySelector('[name=reason]')).focus()
    }
    const check = new Run(lines.warrants, reason, { dry: true, signal: this.signal })
    // The checked warrants must be the revoked warrants.
    this.#become({ isBusy: true, result: this.#progress })
    try {
      const isWhole = await check.go(this.#progress)
      this.#become({ result: isWhole && this.#checked(lines, reason, check) })
    } catch (error) {
      if (this.signal.aborted) return
      const failed = 'The warrants could not be checked. Nothing was changed.'
      this.#become({ result: problem(error, failed, () => this.#check(form)) })
    }
  }

  /**
   * @param {Lines} lines
   * @param {string} reason
   * @param {Run} check
   */
  #checked(lines, reason, check) {
    const isOpen = (/** @type {Warrant} */ { id }) =>
      ['revoked', 'extended'].includes(check.outcomes.get(id)?.outcome ?? '')
    const open = lines.warrants.filter(isOpen)
    const bad = [...lines.bad, ...check.failed()].sort((one, other) => one.line - other.line)
    const start = () =>
      this.#run(new Run(open, reason, { dry: false, signal: this.signal }), { warrants: lines.warrants, bad, check })
    /** @type {HTMLButtonElement} */
    const main = one(button(`Revoke ${count(open.length, 'warrant')}`, start, 'main'))
    main.disabled = bad.length > 0
    const leaveOut = (/** @type {Event} */ { target }) => {
      main.disabled = !(/** @type {HTMLInputElement} */ (target).checked)
    }
    return html`<section class="panel" aria-labelledby="would">
      <h2 id="would" tabindex="-1">Preview</h2>
      <div class="body">
        <ul class="plain">
          ${describePreview(lines, open, check.counted('already_revoked'), bad)}
        </ul>
        ${
          bad.length > 0 && [
            badLines(bad),
            tick(
              html`<input type="checkbox" @change=${leaveOut} />`,
              `Skip the ${bad.length === 1 ? 'invalid line' : `${number(bad.length)} invalid lines`}`,
            ),
          ]
        }
        ${open.length ? html`<div class="actions">${main}</div>` : html`<p>No warrants to revoke.</p>`}
      </div>
    </section>`
  }

  /**
   * @param {Run} run
   * @param {Input} input
   */
  async #run(run, input) {
    this.#become({
      isBusy: true,
      result: html`<section class="panel">
        <h2>Revoking</h2>
        ${this.#progress}
      </section>`,
    })
    /** @type {ApiError | null} */
    let fault = null
    try {
      await run.go(this.#progress)
    } catch (error) {
      if (!(error instanceof ApiError) && !this.signal.aborted) throw error
      fault = error instanceof ApiError ? error : null
    }
    const sizes = `${number(run.counted('revoked'))} of ${count(run.warrants.length, 'warrant')}`
    if (this.signal.aborted) return announce(`Stopped: ${sizes} are revoked.`)
    const open = run.open.length
    this.#become({
      result: html`<section class="panel" aria-labelledby="done">
        <h2 id="done" tabindex="-1">Result</h2>
        <div class="body">
          ${describeResult(run, fault)} ${run.failed().length > 0 && badLines(run.failed())}
          <div class="actions">
            ${open > 0 && button(`Continue with the other ${number(open)}`, () => this.#run(run, input), 'main')}
            ${button('Download result (CSV)', () => saveResult(run, input))}
            <a class="button" href=${`#/changes/${run.batch}`}>Propagation</a>
          </div>
          <p class="soft">
            <small>Batch <code>${run.batch}</code></small>
          </p>
        </div>
      </section>`,
    })
  }
}

/**
 * Describe the result of a check.
 * @param {Lines} lines
 * @param {Warrant[]} open
 * @param {number} already
 * @param {BadLine[]} bad
 */
function describePreview({ repeated, unread }, open, already, bad) {
  const line = (/** @type {number} */ many, /** @type {string} */ one, /** @type {string} */ several) =>
    many > 0 && html`<li><strong>${number(many)}</strong> ${many === 1 ? one : several}</li>`
  return [
    html`<li><strong>${count(open.length, 'warrant')}</strong> would be revoked.</li>`,
    line(already, 'is already revoked.', 'are already revoked.'),
    line(repeated, 'line repeats a warrant of an earlier line.', 'lines repeat a warrant of an earlier line.'),
    unread > 0 && html`<li>Only the first column is read, because the first line has no heading warrant_id.</li>`,
    line(bad.length, 'line cannot be revoked:', 'lines cannot be revoked:'),
  ]
}

/**
 * Describe the finished and open work of a run.
 * @param {Run} run
 * @param {ApiError | null} fault
 */
function describeResult(run, fault) {
  const revoked = run.counted('revoked') + run.counted('already_revoked') + run.counted('extended')
  const [unheard, failed, open] = [run.counted('no_answer'), run.failed().length, run.open.length]
  const done = html`<strong>${count(revoked, 'warrant is', 'warrants are')} revoked.</strong>`
  const effect = 'Online checks refuse them immediately, authorizers once they receive the change.'
  if (!fault && !open && !failed) return banner('force', html`${done} ${effect}`)
  const rest = [
    failed > 0 && ` ${count(failed, 'warrant')} failed, as listed below.`,
    unheard > 0 && ` For ${number(unheard)} the response was lost: they may or may not be revoked.`,
    open > unheard && ` ${number(open - unheard)} ${open - unheard === 1 ? 'remains' : 'remain'}.`,
    open > 0 && ' You can safely continue: each warrant is revoked only once.',
  ]
  const why = fault ? `${advice(fault)} ` : open ? 'Stopped. ' : ''
  return banner(fault ? 'revoked' : 'wait', html`${why}${done}${rest}`)
}

/** @param {BadLine[]} lines */
const badLines = (lines) =>
  html` <div class="scrolled" tabindex="0" role="region" aria-label="Lines that cannot be revoked">
    <ul class="plain">
      ${lines
        .slice(0, SHOWN)
        .map(
          ({ line, text, why }) => html`<li>${number(line)}: ${userText(text)} <span class="soft">${why}</span></li>`,
        )}
    </ul>
    ${lines.length > SHOWN && html`<p class="soft">The first ${number(SHOWN)} of them. The result file has all.</p>`}
  </div>`

/**
 * Save the result of each line to a file.
 * @param {Run} run
 * @param {Input} input
 */
function saveResult(run, { warrants, bad, check }) {
  const left = new Set(bad.map(({ line }) => line))
  const rows = warrants
    .filter(({ line }) => !left.has(line))
    .map(({ line, id }) => {
      const before = check.outcomes.get(id)
      const result = run.outcomes.get(id) ?? (before?.outcome === 'revoked' ? { outcome: 'not_begun' } : before)
      return [line, id, result?.outcome, result?.revocation_id, result?.message]
    })
  const others = bad.map(({ line, text, why }) => [line, text, 'left_out', null, why])
  const all = [...rows, ...others].sort(([line], [other]) => Number(line) - Number(other))
  const heads = ['line', 'warrant_id', 'outcome', 'revocation_id', 'message']
  download(`${run.batch}.csv`, 'text/csv', [formatCsv([heads, ...all])])
}
