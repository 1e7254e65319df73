/** The list of keyboard shortcuts. */
import { type TextKey, t } from '../i18n.ts'
import { Dialog } from './dialog.tsx'

type Key = readonly [names: readonly string[], does: TextKey]

const groups: readonly (readonly [where: TextKey, keys: readonly Key[]])[] = [
  [
    'keys.everywhere',
    [
      [['/', 'Ctrl K'], 'search.label'],
      [['N'], 'keys.next_need'],
      [['Esc'], 'keys.escape'],
      [['?'], 'keys.keys'],
    ],
  ],
  [
    'keys.lists',
    [
      [['↑', '↓', 'Home', 'End'], 'keys.list'],
      [['Enter'], 'keys.enter'],
    ],
  ],
  [
    'approvals.title',
    [
      [['J', 'K'], 'keys.draft'],
      [['E'], 'keys.draft_edit'],
      [['X'], 'keys.draft_choose'],
    ],
  ],
  [
    'composer.write',
    [
      [['Enter'], 'composer.send'],
      [['Shift Enter'], 'keys.line'],
    ],
  ],
]

export const Keys = ({ onClose }: { onClose(): void }) => (
  <Dialog title={t('keys.title')} onClose={onClose}>
    {groups.map(([where, keys]) => (
      <section key={where} class="keys" aria-labelledby={where}>
        <h3 id={where}>{t(where)}</h3>
        <dl>
          {keys.map(([names, does]) => (
            <div key={does}>
              <dt>
                {names.map(name => (
                  <kbd key={name}>{name}</kbd>
                ))}
              </dt>
              <dd>{t(does)}</dd>
            </div>
          ))}
        </dl>
      </section>
    ))}
  </Dialog>
)
