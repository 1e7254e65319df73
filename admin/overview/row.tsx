/** A problem of the overview: what it is, and the button for it. */
import type { ComponentChildren } from 'preact'
import { Icon, type IconName } from '../ui/icon.tsx'

interface RowProps {
  tone: 'bad' | 'warn' | 'calm'
  icon: IconName
  title: string
  children: ComponentChildren
  action?: ComponentChildren
}

export const Row = ({ tone, icon, title, children, action }: RowProps) => (
  <div class={`concern ${tone}`}>
    <span class="sign">
      <Icon name={icon} />
    </span>
    <div class="says">
      <h3 class="foreign">{title}</h3>
      {children}
    </div>
    {action && <div class="does">{action}</div>}
  </div>
)
