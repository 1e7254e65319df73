/** The theme: light, dark, or the one of the system. */
import { effect, signal } from '@preact/signals'
import { dark } from './screen.ts'

export type Theme = 'system' | 'light' | 'dark'
export const themes: readonly Theme[] = ['system', 'light', 'dark']

const chosenAt = 'svc.theme'
const known = (kept: string | null): Theme => themes.find(one => one === kept) ?? 'system'

export const theme = signal<Theme>(known(localStorage.getItem(chosenAt)))

/** Applies the chosen theme now, and again when the system's theme changes. */
export function startTheme(): void {
  effect(() => {
    const isDark = theme.value === 'dark' || (theme.value === 'system' && dark.value)
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light'
  })
  theme.subscribe(value => {
    if (value === 'system') localStorage.removeItem(chosenAt)
    else localStorage.setItem(chosenAt, value)
  })
  // Another tab chose a theme. The key is null when that tab cleared all of the storage.
  addEventListener('storage', ({ key, newValue }: StorageEvent) => {
    if (key === chosenAt || key === null) theme.value = known(newValue)
  })
}
