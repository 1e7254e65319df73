/** Whether the window fits a media query, for layouts that CSS alone cannot make. */
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

export function useMedia(query: string): boolean {
  const fits = useSignal(matchMedia(query).matches)
  useEffect(() => {
    const list = matchMedia(query)
    const update = () => {
      fits.value = list.matches
    }
    list.addEventListener('change', update)
    return () => list.removeEventListener('change', update)
  }, [query])
  return fits.value
}
