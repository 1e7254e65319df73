export { DialogView } from './dialog-view.tsx'
export { MenuView } from './menu-view.tsx'
export { store, ToastsView } from './toasts-view.tsx'
