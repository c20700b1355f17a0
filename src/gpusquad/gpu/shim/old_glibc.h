/* Included before everything else, by the compiler's command line. A library that is linked on a machine of today asks
 * for versions of these functions that containers of yesterday do not have, though they have the functions: so their
 * oldest versions are asked for, which every glibc still exports. */
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
