/*
 * work.c: workers read requests, run handlers, write long answers.  They
 * never wait for the database or for time.
 */

#include <pthread.h>
#include <stdlib.h>

#include "req.h"
#include "work.h"


static pthread_mutex_t   il_work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t    il_work_ready = PTHREAD_COND_INITIALIZER;
static il_conn_t        *il_work_head;
static il_conn_t       **il_work_tail = &il_work_head;
static int               il_work_ended;
static pthread_t        *il_work_threads;
static size_t            il_work_n;

static __thread int      il_work_here;


int
il_work_is_worker(void)
{
    return il_work_here;
}


static void
il_work_push(il_conn_t *conn)
{
    conn->task = NULL;

    (void) pthread_mutex_lock(&il_work_lock);

    *il_work_tail = conn;
    il_work_tail = &conn->task;

    (void) pthread_cond_signal(&il_work_ready);
    (void) pthread_mutex_unlock(&il_work_lock);
}


void
il_work_begin(il_conn_t *conn)
{
    conn->req = NULL;
    il_req_count(1);
    il_work_push(conn);
}


void
il_work_now(il_conn_t *conn)
{
    conn->req = NULL;
    il_req_count(1);
    il_req_begin(conn);
}


void
il_work_step(il_req_t *r)
{
    il_work_push(r->conn);
}


static void *
il_work_main(void *arg)
{
    il_conn_t  *conn;

    (void) arg;

    il_work_here = 1;

    for ( ;; ) {
        (void) pthread_mutex_lock(&il_work_lock);

        while (il_work_head == NULL && !il_work_ended) {
            (void) pthread_cond_wait(&il_work_ready, &il_work_lock);
        }

        conn = il_work_head;

        if (conn != NULL) {
            il_work_head = conn->task;

            if (il_work_head == NULL) {
                il_work_tail = &il_work_head;
            }
        }

        (void) pthread_mutex_unlock(&il_work_lock);

        if (conn == NULL) {
            return NULL;
        }

        if (conn->req == NULL) {
            il_req_begin(conn);

        } else {
            conn->req->step(conn->req);
        }
    }
}


int
il_work_start(size_t n)
{
    il_work_threads = calloc(n, sizeof(pthread_t));
    if (il_work_threads == NULL) {
        return -1;
    }

    for (il_work_n = 0; il_work_n < n; il_work_n++) {
        if (pthread_create(&il_work_threads[il_work_n], NULL, il_work_main,
                           NULL)
            != 0)
        {
            return -1;
        }
    }

    return 0;
}


void
il_work_stop(void)
{
    size_t  i;

    (void) pthread_mutex_lock(&il_work_lock);
    il_work_ended = 1;
    (void) pthread_cond_broadcast(&il_work_ready);
    (void) pthread_mutex_unlock(&il_work_lock);

    for (i = 0; i < il_work_n; i++) {
        (void) pthread_join(il_work_threads[i], NULL);
    }

    free(il_work_threads);
    il_work_threads = NULL;
    il_work_n = 0;
}
