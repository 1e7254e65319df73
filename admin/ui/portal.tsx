/** Renders outside the page's frame, so that nothing clips it. (The one of @zag-js/preact 1.44.0 asks for React.) */
import type { ComponentChildren } from 'preact'
import { createPortal } from 'preact/compat'

export const Portal = ({ children, into }: { children: ComponentChildren; into?: Element | null }) =>
  createPortal(<>{children}</>, into ?? document.body)
