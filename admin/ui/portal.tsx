/**
 * Renders outside of the page, so that nothing clips it. (The portal of @zag-js/preact 1.44.0 requires
 * React.)
 */
import { type ComponentChildren, Fragment, h } from 'preact'
import { createPortal } from 'preact/compat'

export const Portal = ({ children, into }: { children: ComponentChildren; into?: Element | null }) =>
  createPortal(h(Fragment, null, children), into ?? document.body)
