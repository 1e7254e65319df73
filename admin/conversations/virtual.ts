/** Long lists that render only the visible rows. @tanstack/virtual-core keeps the heights. */
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualizerOptions,
} from '@tanstack/virtual-core'
import { useLayoutEffect, useReducer, useState } from 'preact/hooks'

export type VirtualList = Virtualizer<HTMLElement, HTMLElement>
type VirtualListOptions = Pick<
  VirtualizerOptions<HTMLElement, HTMLElement>,
  'count' | 'estimateSize' | 'getScrollElement'
> &
  Partial<VirtualizerOptions<HTMLElement, HTMLElement>>

/** A virtual list. The component renders again when other rows come into view. */
export function useVirtual(options: VirtualListOptions): VirtualList {
  const [, render] = useReducer((n: number) => n + 1, 0)
  const whole = {
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    ...options,
    onChange: (list: VirtualList, scrolling: boolean) => {
      render(undefined as never)
      options.onChange?.(list, scrolling)
    },
  }
  const [list] = useState<VirtualList>(() => new Virtualizer<HTMLElement, HTMLElement>(whole))
  list.setOptions(whole)
  useLayoutEffect(() => list._didMount(), [list])
  useLayoutEffect(() => list._willUpdate())
  return list
}
