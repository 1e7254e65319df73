/** The settings, in groups. The URL names the open group. On a phone the list of groups is a page of its own. */
import type { ComponentType } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { Nodes } from '../cluster/nodes.tsx'
import { type TextKey, t } from '../i18n.ts'
import { isOwner, may } from '../rights.ts'
import { BackupSettings } from '../settings/backups.tsx'
import { Browser } from '../settings/browser.tsx'
import { Programs } from '../settings/programs.tsx'
import { Retention, Service } from '../settings/service.tsx'
import { Icon } from '../ui/icon.tsx'
import { Link } from '../ui/link.tsx'
import { PageHead } from '../ui/list-page.tsx'

export { nextNeed } from '../overview/needs.ts'
export { Keys } from '../ui/keys.tsx'

interface Group {
  id: string
  text: TextKey
  Content: ComponentType
  isShown?(): boolean
}

const groups: readonly Group[] = [
  { id: 'browser', text: 'settings.browser', Content: Browser },
  { id: 'programs', text: 'settings.programs', Content: Programs },
  { id: 'messages', text: 'settings.retention', Content: Retention, isShown: isOwner },
  { id: 'backups', text: 'backups.heading', Content: BackupSettings, isShown: () => may('backup') },
  { id: 'service', text: 'settings.service', Content: Service, isShown: isOwner },
  { id: 'nodes', text: 'nodes.heading', Content: Nodes, isShown: () => may('metrics') },
]

export function Settings() {
  const [path] = useLocation()
  const id = path.split('/')[2]
  const shown = groups.filter(({ isShown }) => isShown?.() ?? true)
  const chosen = shown.find(group => group.id === id)
  const { Content, ...open } = chosen ?? shown[0]!
  const title = useRef<HTMLHeadingElement>(null)
  const before = useRef(chosen)
  useEffect(() => {
    if (before.current === chosen) return
    before.current = chosen
    // On a phone the link that had the focus is out of view now.
    const at = document.activeElement
    if (at !== document.body && at?.checkVisibility()) return
    ;(chosen ? title.current : document.querySelector<HTMLElement>('.settings nav a'))?.focus()
  }, [chosen])
  return (
    <div class="page settings" data-group={chosen?.id}>
      <PageHead title={t('nav.settings')} />
      <nav aria-label={t('nav.settings')}>
        <ul>
          {shown.map(group => (
            <li key={group.id}>
              <Link
                href={`/settings/${group.id}`}
                {...(group.id === open.id && { 'aria-current': chosen ? 'page' : 'true' })}
              >
                {t(group.text)}
              </Link>
            </li>
          ))}
        </ul>
      </nav>
      <section aria-labelledby="group">
        <Link class="back" href="/settings">
          <Icon name="back" size={18} />
          {t('nav.settings')}
        </Link>
        <h2 id="group" ref={title} tabIndex={-1}>
          {t(open.text)}
        </h2>
        <Content />
      </section>
    </div>
  )
}
