/** A drawing of a bot: asleep while there is no account, awake when there is one. Decoration only. */
export function Bot({ awake = false }: { awake?: boolean }) {
  return (
    <svg
      class={awake ? 'bot awake' : 'bot'}
      width={120}
      height={104}
      viewBox="0 0 120 104"
      fill="none"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      <path
        class="body"
        d="M32 20h52a18 18 0 0 1 18 18v26a18 18 0 0 1-18 18H56L38 96V82h-6a18 18 0 0 1-18-18V38a18 18 0 0 1 18-18z"
      />
      <g class="shut">
        <path d="M37 50q6 6 12 0" />
        <path d="M67 50q6 6 12 0" />
      </g>
      <g class="open">
        <circle cx="43" cy="49" r="5" />
        <circle cx="73" cy="49" r="5" />
      </g>
      <path class="mouth calm" d="M53 64h10" />
      <path class="mouth smile" d="M49 62q9 9 18 0" />
      <g class="sleep">
        <path d="M90 16h8l-8 9h8" />
        <path d="M103 3h6l-6 7h6" />
      </g>
    </svg>
  )
}
