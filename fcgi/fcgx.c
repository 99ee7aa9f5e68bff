/*
 * fcgx.c: the one file that touches libfcgi.
 *
 * keepConnection is set before each accept, or FCGX_Accept_r would close the
 * connection that it is given; what the peer asked for is remembered apart,
 * because closing is the event loop's business.
 */

#include <limits.h>
#include <stdlib.h>

#include <fcgiapp.h>

#include "fcgx.h"


#define IL_FCGX_VERSION      1
#define IL_FCGX_END_REQUEST  3
#define IL_FCGX_STDOUT       6

#define IL_FCGX_PIECE        32768     /* of one record; it could be 65535 */


struct il_fcgx_s {
    FCGX_Request  r;
    int           keep;
};


int
il_fcgx_init(void)
{
    /* else libfcgi's close waits up to 2 s for bytes of a broken peer */

    if (setenv("LIBFCGI_OS_CLOSE_POLL_TIMEOUT", "0", 1) != 0) {
        return -1;
    }

    return FCGX_Init() == 0 ? 0 : -1;
}


il_fcgx_t *
il_fcgx_new(int fd)
{
    il_fcgx_t  *f;

    f = calloc(1, sizeof(il_fcgx_t));
    if (f == NULL) {
        return NULL;
    }

    if (FCGX_InitRequest(&f->r, -1, 0) != 0) {
        free(f);
        return NULL;
    }

    f->r.ipcFd = fd;
    f->r.keepConnection = 1;

    return f;
}


void
il_fcgx_free(il_fcgx_t *f)
{
    FCGX_Free(&f->r, 0);
    free(f);
}


int
il_fcgx_accept(il_fcgx_t *f)
{
    f->r.keepConnection = 1;

    if (FCGX_Accept_r(&f->r) != 0) {
        return -1;
    }

    f->keep = f->r.keepConnection;

    return 0;
}


int
il_fcgx_fd(const il_fcgx_t *f)
{
    return f->r.ipcFd;
}


il_str_t
il_fcgx_param(const il_fcgx_t *f, const char *name)
{
    return il_cstr(FCGX_GetParam(name, f->r.envp));
}


char **
il_fcgx_params(const il_fcgx_t *f)
{
    return f->r.envp;
}


int
il_fcgx_read(il_fcgx_t *f, char *buf, size_t n)
{
    int  rc;

    rc = FCGX_GetStr(buf, n > INT_MAX ? INT_MAX : (int) n, f->r.in);

    if (rc < 0 || FCGX_GetError(f->r.in) != 0) {
        return -1;
    }

    return rc;
}


void
il_fcgx_settle(il_fcgx_t *f)
{
    FCGX_FreeStream(&f->r.in);
}


static int
il_fcgx_put(il_fcgx_t *f, il_str_t s)
{
    int     n;
    size_t  done;

    for (done = 0; done < s.len; done += (size_t) n) {
        n = s.len - done > INT_MAX ? INT_MAX : (int) (s.len - done);

        if (FCGX_PutStr(s.data + done, n, f->r.out) != n) {
            return -1;
        }
    }

    return 0;
}


int
il_fcgx_finish(il_fcgx_t *f, const il_str_t *parts, size_t n)
{
    int     bad;
    size_t  i;

    for (i = 0, bad = 0; i < n && !bad; i++) {
        bad = il_fcgx_put(f, parts[i]) != 0;
    }

    /* the error stream first: the last one closed writes END_REQUEST */

    bad |= FCGX_FClose(f->r.err) != 0;
    bad |= FCGX_FClose(f->r.out) != 0;

    FCGX_Free(&f->r, 0);

    return bad ? -1 : (f->keep ? 1 : 0);
}


void
il_fcgx_detach(il_fcgx_t *f)
{
    FCGX_FreeStream(&f->r.in);
    FCGX_FreeStream(&f->r.out);
    FCGX_FreeStream(&f->r.err);
}


static void
il_fcgx_record(const il_fcgx_t *f, il_buf_t *out, unsigned char type,
    il_str_t data)
{
    char  head[8];

    head[0] = IL_FCGX_VERSION;
    head[1] = (char) type;
    head[2] = (char) (f->r.requestId >> 8);
    head[3] = (char) f->r.requestId;
    head[4] = (char) (data.len >> 8);
    head[5] = (char) data.len;
    head[6] = 0;
    head[7] = 0;

    il_buf_add(out, il_str(head, sizeof(head)));
    il_buf_add(out, data);
}


void
il_fcgx_frame(const il_fcgx_t *f, il_buf_t *out, il_str_t data)
{
    size_t  n, done;

    /* an empty record would end the stream */

    for (done = 0; done < data.len; done += n) {
        n = data.len - done > IL_FCGX_PIECE ? IL_FCGX_PIECE
                                            : data.len - done;
        il_fcgx_record(f, out, IL_FCGX_STDOUT, il_str(data.data + done, n));
    }
}


void
il_fcgx_frame_end(const il_fcgx_t *f, il_buf_t *out)
{
    static const char  complete[8] = { 0 };

    il_fcgx_record(f, out, IL_FCGX_STDOUT, il_str(NULL, 0));
    il_fcgx_record(f, out, IL_FCGX_END_REQUEST,
                   il_str(complete, sizeof(complete)));
}


void
il_fcgx_abort(il_fcgx_t *f)
{
    FCGX_Free(&f->r, 0);
}
