/** The list of keyboard shortcuts. */
import { type TextKey, t } from '../i18n.ts'
import { Dialog } from './dialog.tsx'

const keys: readonly [readonly string[], TextKey][] = [
  [['/', 'Ctrl K'], 'search.label'],
  [['↑', '↓', 'Home', 'End'], 'keys.list'],
  [['Enter'], 'keys.enter'],
  [['Shift Enter'], 'keys.line'],
  [['Esc'], 'keys.escape'],
  [['?'], 'keys.keys'],
]

export const Keys = ({ onClose }: { onClose(): void }) => (
  <Dialog title={t('keys.title')} onClose={onClose}>
    <dl class="keys">
      {keys.map(([names, text]) => (
        <div key={text}>
          <dt>
            {names.map(name => (
              <kbd key={name}>{name}</kbd>
            ))}
          </dt>
          <dd>{t(text)}</dd>
        </div>
      ))}
    </dl>
  </Dialog>
)
