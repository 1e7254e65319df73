/** Renders outside the page's frame, so that nothing clips it. (The one of @zag-js/preact 1.44.0 asks for React.) */
import { type ComponentChildren, Fragment, h } from 'preact'
import { createPortal } from 'preact/compat'

export const Portal = ({ children, into }: { children: ComponentChildren; into?: Element | null }) =>
  createPortal(h(Fragment, null, children), into ?? document.body)
