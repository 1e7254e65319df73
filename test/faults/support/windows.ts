/** Preloaded: a machine without the kernel's flock, as far as svc looks at it. */
Object.defineProperty(process, 'platform', { value: 'win32' })
