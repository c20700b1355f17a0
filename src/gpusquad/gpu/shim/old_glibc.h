/* Included first, by the compiler's command line. A library linked with a new glibc requires versions of these
 * functions that older containers do not have, although they have the functions. So their oldest versions are
 * requested, which every glibc still exports. */
#if defined(__x86_64__)
#define GS_OLDEST "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define GS_OLDEST "GLIBC_2.17"
#endif

#ifdef GS_OLDEST
#define GS_OLD(name) __asm__(".symver " #name "," #name "@" GS_OLDEST)
GS_OLD(dlopen);
GS_OLD(pthread_create);
GS_OLD(pthread_detach);
GS_OLD(pthread_key_create);
GS_OLD(pthread_mutex_trylock);
GS_OLD(pthread_once);
GS_OLD(pthread_rwlock_init);
GS_OLD(pthread_rwlock_rdlock);
GS_OLD(pthread_rwlock_unlock);
GS_OLD(pthread_rwlock_wrlock);
GS_OLD(pthread_setspecific);
GS_OLD(pthread_sigmask);
#endif
