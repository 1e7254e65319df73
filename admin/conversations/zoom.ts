/** Zooms and moves a picture on a stage, by wheel, mouse, fingers, keys and buttons. */
import { type ReadonlySignal, useComputed, useSignal } from '@preact/signals'
import type { RefObject } from 'preact'
import { useEffect } from 'preact/hooks'
import type { Shape } from './blobs.ts'

interface Point {
  x: number
  y: number
}

/**
 * The view of a picture. At `zoom` 1 the picture fits the stage. `x` and `y` are the distance in px of the
 * picture's centre from the stage's centre.
 */
interface View extends Point {
  zoom: number
}

export interface Zoom {
  view: ReadonlySignal<View>
  /** The size that fits the stage, px; undefined until the picture is loaded. */
  size: ReadonlySignal<Shape | undefined>
  /** The scale relative to the picture's own size. */
  scale: ReadonlySignal<number>
  isClose: ReadonlySignal<boolean>
  isClosest: ReadonlySignal<boolean>
  by(factor: number, at?: Point): void
  fit(): void
  move(x: number, y: number): void
}

const middle: Point = { x: 0, y: 0 }
const fitting: View = { ...middle, zoom: 1 }
/** A tiny picture is enlarged to this size, px. */
const leastPx = 64
/** The largest scale, relative to the larger of its own size and the size that fits. */
const closest = 4
const step = 1.5
const tapMs = 300
const tapPx = 24
/** A finger that moves this far makes a swipe. */
const swipePx = 60

/** @param onSwipe gets 1 for the next picture, -1 for the previous one */
export function useZoom(
  stage: RefObject<HTMLElement | null>,
  natural: ReadonlySignal<Shape | undefined>,
  onSwipe: (step: 1 | -1) => void,
): Zoom {
  const view = useSignal(fitting)
  const { room, fitScale, size } = useFit(natural)
  const most = () => Math.max(closest, closest / (fitScale.peek() ?? 1))
  const set = (wanted: View) => {
    view.value = limited(wanted, size.peek(), room.peek())
  }
  const to = (wanted: number, at: Point) => {
    const { zoom, x, y } = view.peek()
    const next = Math.min(most(), Math.max(1, wanted))
    // Keep the point under the pointer in place.
    const along = (from: number, point: number) => point - ((point - from) * next) / zoom
    set({ zoom: next, x: along(x, at.x), y: along(y, at.y) })
  }
  const fit = () => {
    view.value = fitting
  }
  /** Zooms to its own size, or to the width or height of the stage if that is less; or back. */
  const toggle = (at: Point) => {
    const [own, scale] = [natural.peek(), fitScale.peek()]
    if (!own || scale === undefined) return
    const full = Math.max(room.peek().width / own.width, room.peek().height / own.height)
    if (view.peek().zoom > 1) fit()
    else to(Math.max(2, Math.min(1, full) / scale), at)
  }
  const move = (x: number, y: number) => {
    const now = view.peek()
    set({ zoom: now.zoom, x: now.x + x, y: now.y + y })
  }
  const drag = (x: number) => {
    view.value = { zoom: 1, x, y: 0 }
  }

  useEffect(() => {
    const hand = new Hand(stage.current!, { view, to, fit, move, toggle, onSwipe, drag })
    return () => hand.leave()
  }, [])
  useEffect(
    () =>
      onSize(stage.current!, size => {
        room.value = size
        set(view.peek())
      }),
    [],
  )
  return {
    view,
    size,
    fit,
    move,
    scale: useComputed(() => (fitScale.value ?? 1) * view.value.zoom),
    isClose: useComputed(() => view.value.zoom > 1),
    isClosest: useComputed(() => fitScale.value !== undefined && view.value.zoom >= most() - 0.001),
    by: (factor, at = middle) => to(view.peek().zoom * factor, at),
  }
}

/** @returns stops it */
function onSize(frame: HTMLElement, take: (size: Shape) => void): () => void {
  const observer = new ResizeObserver(() => take({ width: frame.clientWidth, height: frame.clientHeight }))
  observer.observe(frame)
  return () => observer.disconnect()
}

/** The stage's size, and the scale and size with which the picture fits it. */
function useFit(natural: ReadonlySignal<Shape | undefined>) {
  const room = useSignal<Shape>({ width: 0, height: 0 })
  const fitScale = useComputed(() => {
    const own = natural.value
    if (!own || room.value.width === 0) return undefined
    const most = Math.min(room.value.width / own.width, room.value.height / own.height)
    return Math.min(most, Math.max(1, leastPx / Math.max(own.width, own.height)))
  })
  const size = useComputed(() => {
    const [own, scale] = [natural.value, fitScale.value]
    return own && scale !== undefined ? { width: own.width * scale, height: own.height * scale } : undefined
  })
  return { room, fitScale, size }
}

/** Limits a view so that the picture cannot be moved out of the stage. @param size the picture's at zoom 1 */
function limited({ zoom, x, y }: View, size: Shape = { width: 0, height: 0 }, room: Shape): View {
  const within = (at: number, length: number, of: number) => {
    const over = Math.max(0, (length * zoom - of) / 2)
    return Math.min(over, Math.max(-over, at))
  }
  return { zoom, x: within(x, size.width, room.width), y: within(y, size.height, room.height) }
}

export const closer = step
export const farther = 1 / step

interface Acts {
  view: ReadonlySignal<View>
  to(zoom: number, at: Point): void
  fit(): void
  move(x: number, y: number): void
  toggle(at: Point): void
  /** Moves a picture that fits by the distance of a finger, px. */
  drag(x: number): void
  onSwipe(step: 1 | -1): void
}

const apart = (one: Point, other: Point) => Math.hypot(one.x - other.x, one.y - other.y)

/** Wheel, mouse and fingers on a stage. */
class Hand {
  readonly #frame: HTMLElement
  readonly #acts: Acts
  readonly #fingers = new Map<number, Point>()
  /** Where the first finger came down, and how far it went since. */
  #from = middle
  #moved: 'no' | 'one' | 'two' = 'no'
  #tapped = { ...middle, at: 0 }
  readonly #gone = new AbortController()

  constructor(frame: HTMLElement, acts: Acts) {
    this.#frame = frame
    this.#acts = acts
    const { signal } = this.#gone
    const up = (event: PointerEvent) => this.#up(event)
    frame.addEventListener('wheel', event => this.#wheel(event), { passive: false, signal })
    frame.addEventListener('pointerdown', event => this.#down(event), { signal })
    frame.addEventListener('pointermove', event => this.#move(event), { signal })
    frame.addEventListener('pointerup', up, { signal })
    frame.addEventListener('pointercancel', up, { signal })
  }

  leave(): void {
    this.#gone.abort()
  }

  #pointOf({ clientX, clientY }: MouseEvent): Point {
    const { left, top, width, height } = this.#frame.getBoundingClientRect()
    return { x: clientX - left - width / 2, y: clientY - top - height / 2 }
  }

  #between(): { distance: number; at: Point } {
    const [one = middle, other = middle] = this.#fingers.values()
    return { distance: apart(one, other), at: { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 } }
  }

  #wheel(event: WheelEvent): void {
    event.preventDefault()
    // Some mice scroll by lines. A pinch on a touch pad comes as small steps with Ctrl.
    const steps = event.deltaY * (event.deltaMode === 0 ? 1 : 20) * (event.ctrlKey ? 8 : 1)
    this.#acts.to(this.#acts.view.peek().zoom * Math.exp(-steps / 600), this.#pointOf(event))
  }

  #down(event: PointerEvent): void {
    // Do not start a drag on a button, such as the download of a broken picture.
    if (event.button !== 0 || (event.target as Element).closest('a, button')) return
    const isFirst = this.#fingers.size === 0
    this.#fingers.set(event.pointerId, this.#pointOf(event))
    this.#frame.setPointerCapture(event.pointerId)
    this.#moved = isFirst ? 'no' : 'two'
    if (isFirst) this.#from = this.#pointOf(event)
  }

  #move(event: PointerEvent): void {
    const before = this.#fingers.get(event.pointerId)
    if (!before) return
    const { view, to, move, drag } = this.#acts
    const was = this.#between()
    const now = this.#pointOf(event)
    this.#fingers.set(event.pointerId, now)
    if (this.#fingers.size > 1) {
      const is = this.#between()
      if (was.distance > 0) to((view.peek().zoom * is.distance) / was.distance, is.at)
      move(is.at.x - was.at.x, is.at.y - was.at.y)
      return
    }
    if (this.#moved === 'no' && apart(this.#from, now) > 4) this.#moved = 'one'
    if (this.#moved === 'no') return
    if (view.peek().zoom > 1) move(now.x - before.x, now.y - before.y)
    else if (this.#moved === 'one') drag(now.x - this.#from.x)
  }

  #up(event: PointerEvent): void {
    if (!this.#fingers.delete(event.pointerId) || this.#fingers.size > 0) return
    const now = this.#pointOf(event)
    const isCut = event.type === 'pointercancel'
    if (this.#moved === 'no' && !isCut) this.#tap(now, event.timeStamp)
    if (this.#acts.view.peek().zoom > 1) return
    this.#acts.fit()
    const [x, y] = [now.x - this.#from.x, now.y - this.#from.y]
    if (this.#moved === 'one' && !isCut && Math.abs(x) > swipePx && Math.abs(x) > Math.abs(y))
      this.#acts.onSwipe(x < 0 ? 1 : -1)
  }

  #tap(now: Point, at: number): void {
    const isSecond = at - this.#tapped.at < tapMs && apart(this.#tapped, now) < tapPx
    this.#tapped = isSecond ? { ...middle, at: 0 } : { ...now, at }
    if (isSecond) this.#acts.toggle(now)
  }
}
