/**
 * A side sheet: the detail of a row. On a phone it fills the window. Open as long as it is rendered. A page that
 * keeps what is open in the URL uses `useParam`.
 */
import { Dialog } from './dialog.tsx'
import type { DialogProps } from './dialog-view.tsx'

export const Sheet = (props: Omit<DialogProps, 'large' | 'side' | 'alert'>) => <Dialog {...props} side />
