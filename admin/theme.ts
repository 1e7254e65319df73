/** Light, dark, or as the system has it. */
import { signal } from '@preact/signals'

export type Theme = 'system' | 'light' | 'dark'
export const themes: readonly Theme[] = ['system', 'light', 'dark']

const chosenAt = 'svc.theme'
const kept = localStorage.getItem(chosenAt)

export const theme = signal<Theme>(themes.find(one => one === kept) ?? 'system')

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
}
