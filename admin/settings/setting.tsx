/** A row of the settings: its name and what it is for, and its value or control. */
import type { ComponentChildren } from 'preact'

interface SettingProps {
  name: string
  /** For `aria-labelledby` of its control. */
  id?: string
  about?: ComponentChildren
  children?: ComponentChildren
}

export const Setting = ({ name, id, about, children }: SettingProps) => (
  <div class="setting">
    <div>
      <h3 id={id}>{name}</h3>
      {about && <p class="soft small">{about}</p>}
    </div>
    {children && <div class="setting-value">{children}</div>}
  </div>
)
