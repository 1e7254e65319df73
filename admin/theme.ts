/** Light, dark, or as the system has it. */
import { signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'
export const themes: readonly Theme[] = ['system', 'light', 'dark']

const chosenAt = 'svc.theme'
const known = (kept: string | null): Theme => themes.find(one => one === kept) ?? 'system'

export const theme = signal<Theme>(known(localStorage.getItem(chosenAt)))

const dark = matchMedia('(prefers-color-scheme: dark)')

/** Sets the page to the chosen theme, now and when the system changes. */
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
  // Chosen in another tab; there all choices were forgotten where there is no key.
  addEventListener('storage', ({ key, newValue }: StorageEvent) => {
    if (key === chosenAt || key === null) theme.value = known(newValue)
  })
}
