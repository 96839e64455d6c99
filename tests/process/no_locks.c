/* For LD_PRELOAD: a file system without locks, as NFS without a lock manager is, or Lustre without `-o flock`. */
#include <errno.h>

int flock(int file, int operation)
{
    (void)file;
    (void)operation;
    errno = ENOLCK;
    return -1;
}
