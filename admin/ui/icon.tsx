/**
 * Line icons, 24 units square, scaled with the text. They are decoration: the text beside them has the
 * meaning.
 */
import type { ComponentProps } from 'preact'

const paths = {
  overview: 'M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z',
  sessions:
    'M16 20v-1.500a3.500 3.500 0 0 0-3.500-3.500h-5A3.500 3.500 0 0 0 4 18.500V20M10 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7M20 8v6M17 11h6',
  conversations:
    'M20 11.500a7.500 7 0 0 1-7.500 7H8l-4 3v-5.500a7 7 0 0 1-1-4.500 7.500 7 0 0 1 7.500-7h2a7.500 7 0 0 1 7.500 7z',
  approvals: 'M20 12v8H4V4h11M8 11l4 4 8-9',
  agents: 'M5 8h14v11H5zM12 8V4M9.500 12.500v2M14.500 12.500v2M2.500 12v3M21.500 12v3',
  audit: 'M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01',
  webhooks: 'M13 3L5 14h6l-1 7 8-11h-6z',
  topics: 'M6 16v-5a6 6 0 0 1 12 0v5l2 2H4zM10 21h4M12 5V3',
  chevron: 'M6 9l6 6 6-6',
  key: 'M8 20a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9M11.200 12.300L20 3.500M17 6.500l3 3M14.500 9l2 2',
  settings:
    'M4 7h9M17 7h3M4 17h3M11 17h9M15 9.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5M9 19.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5',
  add: 'M12 5v14M5 12h14',
  more: 'M4.700 11.700h.6v.6h-.6zM11.700 11.700h.6v.6h-.6zM18.700 11.700h.6v.6h-.6z',
  close: 'M6 6l12 12M18 6L6 18',
  back: 'M15 5l-7 7 7 7',
  next: 'M9 5l7 7-7 7',
  less: 'M5 12h14',
  open: 'M14 4h6v6M20 4l-9 9M18 14v6H4V6h6',
  search: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14M20 20l-4-4',
  filter: 'M4 6h16M7 12h10M10 18h4',
  calendar: 'M4 6h16v14H4zM4 10h16M8 3v5M16 3v5',
  forward: 'M13 6l7 6-7 6v-4c-4 0-7 1-9 4 0-5 3-8.500 9-8.500z',
  send: 'M5 12l15-7-5 15-3.500-5.500zM11.500 14.500L20 5',
  attach:
    'M19 11l-7.500 7.500a4.500 4.500 0 0 1-6.400-6.400L13 4.300a3 3 0 0 1 4.300 4.300l-7.800 7.700a1.500 1.500 0 0 1-2.100-2.100l7-7',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  file: 'M14 3v5h5M14 3H6v18h13V8z',
  play: 'M8 5l11 7-11 7z',
  voice:
    'M12 15a3.500 3.500 0 0 0 3.500-3.500v-4a3.500 3.500 0 1 0-7 0v4A3.500 3.500 0 0 0 12 15M5.500 11.500a6.500 6.500 0 0 0 13 0M12 18v3',
  star: 'M12 4l2.500 5.200 5.500.800-4 4 1 5.700-5-2.800-5 2.800 1-5.700-4-4 5.500-.800z',
  erase: 'M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  renew: 'M20 6v5h-5M4 18v-5h5M5.500 9A7.500 7.500 0 0 1 19 8l1 3M18.500 15A7.500 7.500 0 0 1 5 16l-1-3',
  out: 'M14 4h5v16h-5M4 12h10M10 8l4 4-4 4',
  check: 'M5 12.500l4.500 4.500L19 7.500',
  warn: 'M12 4L2.500 20h19zM12 10v4.500M12 17.500h.01',
  clock: 'M12 20.500a8.500 8.500 0 1 0 0-17 8.500 8.500 0 0 0 0 17M12 7.500V12l3 2',
  phone: 'M8 3h8v18H8zM11 18h2',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  down: 'M12 5v14M6 13l6 6 6-6',
  up: 'M12 19V5M6 11l6-6 6 6',
  question:
    'M12 20.500a8.500 8.500 0 1 0 0-17 8.500 8.500 0 0 0 0 17M9.500 9.500a2.500 2.500 0 1 1 3.500 2.300c-.7.300-1 .8-1 1.700M12 16.500h.01',
  hash: 'M10 4L8 20M16 4l-2 16M4 9h16.500M3.500 15H20',
  person: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4.500 20c.5-4 3.500-5.500 7.500-5.500s7 1.500 7.500 5.500',
  image: 'M4 5h16v14H4zM4 16l4.500-4.500 4 4 2.500-2.500 5 5M15 9.500h.01',
  pause: 'M8 5v14M16 5v14',
  eye: 'M2.500 12S6 5.500 12 5.500 21.500 12 21.500 12 18 18.500 12 18.500 2.500 12 2.500 12zM12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6',
  eye_off:
    'M10 5.700A9 9 0 0 1 12 5.500c6 0 9.500 6.500 9.500 6.500a17 17 0 0 1-2.700 3.400M6.500 7.500A16 16 0 0 0 2.500 12S6 18.500 12 18.500a9 9 0 0 0 5-1.500M9.900 9.900a3 3 0 0 0 4.200 4.200M4 4l16 16',
  unread: 'M4 6h10M4 6v12h16v-8M4 7l8 6 2.500-2M19 8a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5',
} as const

export type IconName = keyof typeof paths

export function Icon({ name, size = 20 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={`${size / 16}rem`}
      height={`${size / 16}rem`}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.75"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path d={paths[name]} />
    </svg>
  )
}

interface IconButtonProps extends ComponentProps<'button'> {
  icon: IconName
  size?: number
  /** Its name for screen readers, and its tooltip. */
  label: string
}

/** A button that shows an icon alone. */
export const IconButton = ({ icon, size = 20, label, ...button }: IconButtonProps) => (
  <button type="button" class="button plain icon-only" aria-label={label} title={label} {...button}>
    <Icon name={icon} size={size} />
  </button>
)
