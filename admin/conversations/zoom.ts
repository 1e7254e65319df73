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
  const room = useSignal<Shape>({ width: 0, height: 0 })
  const fitScale = useComputed(() => {
    const own = natural.value
    if (!own || room.value.width === 0) return undefined
    const most = Math.min(room.value.width / own.width, room.value.height / own.height)
    return Math.min(most, Math.max(1, leastPx / Math.max(own.width, own.height)))
  })
  const most = () => Math.max(closest, closest / (fitScale.peek() ?? 1))
  const size = useComputed(() => {
    const [own, scale] = [natural.value, fitScale.value]
    return own && scale !== undefined ? { width: own.width * scale, height: own.height * scale } : undefined
  })

  /** Sets the view, limited so that the picture cannot be moved out of the stage. */
  const set = ({ zoom, x, y }: View) => {
    const fits = size.peek() ?? { width: 0, height: 0 }
    const within = (at: number, length: number, of: number) => {
      const over = Math.max(0, (length * zoom - of) / 2)
      return Math.min(over, Math.max(-over, at))
    }
    view.value = {
      zoom,
      x: within(x, fits.width, room.peek().width),
      y: within(y, fits.height, room.peek().height),
    }
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

  useEffect(() => {
    const frame = stage.current!
    const observer = new ResizeObserver(() => {
      room.value = { width: frame.clientWidth, height: frame.clientHeight }
      set(view.peek())
    })
    observer.observe(frame)
    const stop = listen(frame, {
      view,
      to,
      fit,
      move,
      toggle,
      onSwipe,
      drag(x) {
        view.value = { zoom: 1, x, y: 0 }
      },
    })
    return () => {
      observer.disconnect()
      stop()
    }
  }, [])

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

/** Handles wheel, mouse and fingers. @returns stops it */
function listen(frame: HTMLElement, { view, to, fit, move, toggle, drag, onSwipe }: Acts): () => void {
  const fingers = new Map<number, Point>()
  let from = middle
  let moved: 'no' | 'one' | 'two' = 'no'
  let tapped = { ...middle, at: 0 }
  const pointOf = ({ clientX, clientY }: MouseEvent): Point => {
    const { left, top, width, height } = frame.getBoundingClientRect()
    return { x: clientX - left - width / 2, y: clientY - top - height / 2 }
  }
  const apart = (one: Point, other: Point) => Math.hypot(one.x - other.x, one.y - other.y)
  const between = (): { distance: number; at: Point } => {
    const [one = middle, other = middle] = fingers.values()
    return { distance: apart(one, other), at: { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 } }
  }

  const onWheel = (event: WheelEvent) => {
    event.preventDefault()
    // Some mice scroll by lines. A pinch on a touch pad comes as small steps with Ctrl.
    const steps = event.deltaY * (event.deltaMode === 0 ? 1 : 20) * (event.ctrlKey ? 8 : 1)
    to(view.peek().zoom * Math.exp(-steps / 600), pointOf(event))
  }
  const onDown = (event: PointerEvent) => {
    // Do not start a drag on a button, such as the download of a broken picture.
    if (event.button !== 0 || (event.target as Element).closest('a, button')) return
    const isFirst = fingers.size === 0
    fingers.set(event.pointerId, pointOf(event))
    frame.setPointerCapture(event.pointerId)
    if (!isFirst) {
      moved = 'two'
      return
    }
    from = pointOf(event)
    moved = 'no'
  }
  const onMove = (event: PointerEvent) => {
    const before = fingers.get(event.pointerId)
    if (!before) return
    const was = between()
    const now = pointOf(event)
    fingers.set(event.pointerId, now)
    if (fingers.size > 1) {
      const is = between()
      if (was.distance > 0) to((view.peek().zoom * is.distance) / was.distance, is.at)
      return move(is.at.x - was.at.x, is.at.y - was.at.y)
    }
    if (moved === 'no' && apart(from, now) > 4) moved = 'one'
    if (moved === 'no') return
    if (view.peek().zoom > 1) move(now.x - before.x, now.y - before.y)
    else if (moved === 'one') drag(now.x - from.x)
  }
  const onUp = (event: PointerEvent) => {
    if (!fingers.delete(event.pointerId) || fingers.size > 0) return
    const now = pointOf(event)
    const isCut = event.type === 'pointercancel'
    if (moved === 'no' && !isCut) {
      const isSecond = event.timeStamp - tapped.at < tapMs && apart(tapped, now) < tapPx
      tapped = isSecond ? { ...middle, at: 0 } : { ...now, at: event.timeStamp }
      if (isSecond) toggle(now)
    }
    if (view.peek().zoom > 1) return
    fit()
    const [x, y] = [now.x - from.x, now.y - from.y]
    if (moved === 'one' && !isCut && Math.abs(x) > swipePx && Math.abs(x) > Math.abs(y))
      onSwipe(x < 0 ? 1 : -1)
  }
  frame.addEventListener('wheel', onWheel, { passive: false })
  frame.addEventListener('pointerdown', onDown)
  frame.addEventListener('pointermove', onMove)
  frame.addEventListener('pointerup', onUp)
  frame.addEventListener('pointercancel', onUp)
  return () => {
    frame.removeEventListener('wheel', onWheel)
    frame.removeEventListener('pointerdown', onDown)
    frame.removeEventListener('pointermove', onMove)
    frame.removeEventListener('pointerup', onUp)
    frame.removeEventListener('pointercancel', onUp)
  }
}
