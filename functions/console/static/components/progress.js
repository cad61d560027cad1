/** Long work: a bar, a message, and a button that stops it after the current step. */

import { number, span } from '../format.js'
import { html, put } from '../html.js'
import { announce } from './panel.js'

/**
 * Execute steps in order. Returns whether all were executed; a person may stop it.
 * @template T
 * @param {Element} place place for the bar
 * @param {string} what for example "warrants"
 * @param {T[]} steps
 * @param {(step: T) => Promise<unknown>} run
 * @param {{size?: (step: T) => number, signal: AbortSignal}} options `size`: the number of `what` in a step
 */
export async function work(place, what, steps, run, { size = () => 1, signal }) {
  const total = steps.reduce((sum, step) => sum + size(step), 0)
  const left = [...steps]
  const begun = performance.now()
  let done = 0
  const step = async () => {
    const [next] = left.splice(0, 1)
    if (next === undefined) return null
    await run(next)
    const before = Math.floor((4 * done) / total)
    done += size(next)
    const seconds = ((performance.now() - begun) / 1000 / done) * (total - done)
    // For short work, screen readers announce only the end.
    const isLong = performance.now() - begun > 2000
    if (isLong && Math.floor((4 * done) / total) > before)
      announce(done < total ? `${Math.floor((100 * done) / total)} % done.` : `All ${number(total)} ${what} done.`)
    return {
      share: done / total,
      words:
        `${number(done)} of ${number(total)} ${what}` +
        (done < total ? `, about ${span(Math.max(1, seconds))} left` : ''),
    }
  }
  const leave = (/** @type {BeforeUnloadEvent} */ event) => event.preventDefault()
  addEventListener('beforeunload', leave)
  try {
    return await advance(place, step, signal, { name: `${what} done`, share: 0 })
  } finally {
    removeEventListener('beforeunload', leave)
  }
}

/**
 * Execute steps until a step returns null. Returns whether that was reached; a person may stop it after any step.
 * @param {Element} place place for the bar
 * @param {() => Promise<{words: string, share?: number} | null>} step executes a step and returns its progress
 * @param {AbortSignal} signal
 * @param {{name?: string, share?: number}} [bar] `share`: of the whole, if known
 */
export async function advance(place, step, signal, { name = 'Work in progress', share } = {}) {
  let isStopped = false
  const stop = () => {
    isStopped = true
  }
  const draw = (/** @type {number | undefined} */ done, words = '') =>
    put(
      place,
      html`<progress value=${done} aria-label=${name}></progress>
        <p role="status">${words}</p>
        <div class="actions"><button type="button" @click=${stop}>Stop after this step</button></div>`,
    )
  draw(share)
  try {
    while (!isStopped && !signal.aborted) {
      const progress = await step()
      if (progress === null) return true
      draw(progress.share, progress.words)
    }
    return false
  } finally {
    put(place)
  }
}

/**
 * Offer a file for download.
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
