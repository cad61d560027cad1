/** Long work: a bar, words, and a button that stops it after the present step. */

import { number, span } from '../format.js'
import { html, put } from '../html.js'
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
    // Of short work only the end is worth hearing.
    const isLong = performance.now() - begun > 2000
    if (isLong && Math.floor((4 * done) / total) > before)
      announce(done < total ? `${Math.floor((100 * done) / total)} % done.` : `All ${number(total)} ${what} are done.`)
    return {
      share: done / total,
      words:
        `${number(done)} of ${number(total)} ${what}` +
        (done < total ? `, about ${span(Math.max(1, seconds))} more` : ''),
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
 * Do steps until one gives null. Returns whether that was reached; a person may stop it after any.
 * @param {Element} place where it is shown
 * @param {() => Promise<{words: string, share?: number} | null>} step does one, and says how far it has come
 * @param {AbortSignal} signal
 * @param {{name?: string, share?: number}} [bar] `share`: of all, if that is known
 */
export async function advance(place, step, signal, { name = 'Work in progress', share } = {}) {
  let stopped = false
  const stop = () => {
    stopped = true
  }
  const draw = (/** @type {number | undefined} */ done, words = '') =>
    put(
      place,
      html`<progress value=${done} aria-label=${name}></progress>
        <p role="status">${words}</p>
        <div class="actions"><button type="button" @click=${stop}>Stop after the present step</button></div>`,
    )
  draw(share)
  try {
    while (!stopped && !signal.aborted) {
      const said = await step()
      if (said === null) return true
      draw(said.share, said.words)
    }
    return false
  } finally {
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
