/*
 * What Debian's libstdc++ takes from glibc and musl 1.2.3 does not have. svc is built without exceptions and uses none of
 * its random numbers, so two of these are never called.
 */

/* Read to skip locks where there is one thread; never so here. */
char __libc_single_threaded = 0;

/* Where the tables of a piece of code are, for exceptions on their way up. */
int _dl_find_object(void *code, void *found)
{
	(void)code, (void)found;
	__builtin_trap();
}

unsigned int arc4random(void)
{
	__builtin_trap();
}
