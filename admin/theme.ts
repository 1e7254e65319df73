/** The theme: light, dark, or the one of the system. */
import { signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'
export const themes: readonly Theme[] = ['system', 'light', 'dark']

const chosenAt = 'svc.theme'
const known = (kept: string | null): Theme => themes.find(one => one === kept) ?? 'system'

export const theme = signal<Theme>(known(localStorage.getItem(chosenAt)))

const dark = matchMedia('(prefers-color-scheme: dark)')

/** Applies the chosen theme now, and again when the system's theme changes. */
export function startTheme(): void {
  const apply = () => {
    const isDark = theme.value === 'dark' || (theme.value === 'system' && dark.matches)
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light'
  }
  theme.subscribe(value => {
    if (value === 'system') localStorage.removeItem(chosenAt)
    else localStorage.setItem(chosenAt, value)
    apply()
  })
  dark.addEventListener('change', apply)
  // Another tab chose a theme. The key is null when that tab cleared all of the storage.
  addEventListener('storage', ({ key, newValue }: StorageEvent) => {
    if (key === chosenAt || key === null) theme.value = known(newValue)
  })
}
