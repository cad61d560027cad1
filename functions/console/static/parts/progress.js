/** Long work: a bar, words, and a button that stops it after the present step. */

import { number, span } from '../format.js'
import { html, one, put } from '../html.js'
import { announce } from './panel.js'

/**
 * Do one step after another. Returns whether all were done; a person may stop it.
 * @template T
 * @param {Element} place where the bar is shown
 * @param {string} what as in "warrants"
 * @param {T[]} steps
 * @param {(step: T) => Promise<unknown>} run
 * @param {{size?: (step: T) => number, signal: AbortSignal}} options how many of `what` a step has
 */
export async function work(place, what, steps, run, { size = () => 1, signal }) {
  const total = steps.reduce((sum, step) => sum + size(step), 0)
  const bar = /** @type {HTMLProgressElement} */ (
    one(html`<progress max=${total} value="0" aria-label=${`${what} done`}></progress>`)
  )
  const words = one(html`<p role="status"></p>`)
  let stopped = false
  put(
    place,
    bar,
    words,
    html`<div class="actions">
      <button
        type="button"
        @click=${() => {
          stopped = true
        }}
      >
        Stop after the present step
      </button>
    </div>`,
  )
  const leave = (/** @type {BeforeUnloadEvent} */ event) => event.preventDefault()
  addEventListener('beforeunload', leave)
  const begun = performance.now()
  let done = 0
  try {
    for (const step of steps) {
      if (stopped || signal.aborted) return false
      await run(step)
      const before = Math.floor((4 * done) / total)
      done += size(step)
      bar.value = done
      const seconds = ((performance.now() - begun) / 1000 / done) * (total - done)
      put(
        words,
        `${number(done)} of ${number(total)} ${what}` +
          (done < total ? `, about ${span(Math.max(1, seconds))} more` : ''),
      )
      // Of short work only the end is worth hearing.
      const isLong = performance.now() - begun > 2000
      if (isLong && Math.floor((4 * done) / total) > before)
        announce(
          done < total ? `${Math.floor((100 * done) / total)} % done.` : `All ${number(total)} ${what} are done.`,
        )
    }
    return true
  } finally {
    removeEventListener('beforeunload', leave)
    put(place)
  }
}

/**
 * Let the person keep a file.
 * @param {string} name
 * @param {string} type
 * @param {BlobPart[]} content
 */
export function download(name, type, content) {
  const address = URL.createObjectURL(new Blob(content, { type }))
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}

/**
 * Do steps whose number is not known until one gives null. Returns whether that was reached; a person
 * may stop it.
 * @param {Element} place where it is shown
 * @param {() => Promise<string | null>} step does one, and says how far it has come
 * @param {AbortSignal} signal
 */
export async function advance(place, step, signal) {
  const words = one(html`<p role="status"></p>`)
  let stopped = false
  put(
    place,
    html`<progress aria-label="Work in progress"></progress>`,
    words,
    html`<button
      type="button"
      @click=${() => {
        stopped = true
      }}
    >
      Stop
    </button>`,
  )
  try {
    while (!stopped && !signal.aborted) {
      const said = await step()
      if (said === null) return true
      put(words, said)
    }
    return false
  } finally {
    put(place)
  }
}
