/* SPDX-License-Identifier: Apache-2.0
 * scratch
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "host/process/yaml_tree.h"
#include "simulate/hardware/builtin.h"
#include "simulate/hardware/step_clock.h"
static _Alignas(16) char memory[64<<20], m2[64 << 20];
static double nw(void){struct timespec t; clock_gettime(CLOCK_MONOTONIC,&t); return t.tv_sec*1e6+t.tv_nsec*1e-3;}
static void r(const char*hw,uint32_t ranks,uint32_t red,bool bal,double skew,struct step_share s,enum overlap_kind k,const char*label){
  struct arena a,b; struct error e={0}; const struct tree*t=NULL; struct hardware h; struct model_figures m;
  arena_over(&a,memory,sizeof memory); arena_over(&b,m2,sizeof m2);
  if(yaml_tree_parse(&a,builtin_text(BUILTIN_HARDWARE,bytes_of(hw)),hw,&t,&e)||hardware_read(&a,t,hw,&h,&e)||yaml_tree_parse(&a,builtin_text(BUILTIN_MODEL,bytes_of("deepseek-v3")),"m",&t,&e)||model_figures_read(t,"m",&m,&e)){printf("%s\n",e.text);return;}
  struct step_clock_options o={.hardware=&h,.model=&m,.ranks=ranks,.ranks_per_node=8,.redundant_experts=red,.balance_experts=bal,.expert_skew=skew,.expert_drift=.05,.seed=1};
  struct step_clock*c; double t0=nw();
  if(step_clock_open(&b,&o,&c,&e)){printf("%s\n",e.text);return;}
  double t1=nw();
  struct step_share sh[256]; for(int i=0;i<256;i++){sh[i]=s;}
  struct step_time st; for(int i=0;i<200;i++) st=step_clock_step(c,sh,k,0);
  double t2=nw();
  printf("%-28s ns %.3f ms layers %.3f bal %.3f w %.2f pages %u open %.1f ms step %.2f us |",label,st.ns*1e-6,st.layers_ns*1e-6,step_clock_balance_mean(c),step_clock_weight_bytes(c)*1e-9,step_clock_page_count(c),(t1-t0)/1e3,(t2-t1)/200);
  for(int i=0;i<STEP_SPENT_COUNT;i++)
 printf(" %.3f",st.spent[i]/ranks*1e3);
 printf("\n");
}
static struct step_share dec(uint32_t b,uint32_t q,uint64_t ctx){return (struct step_share){.answer_rows=b,.answer_tokens=b*q,.context=b*ctx,.slowness=1};}
static struct step_share pre(uint32_t t,uint64_t mean){return (struct step_share){.prompt_tokens=t,.attended=t*mean,.slowness=1};}
int main(void){
 r("h800",128,0,false,0,dec(128,2,4096),OVERLAP_DECODE_FIVE_STAGE,"profile decode 87.32");
 r("h800",144,32,true,0,dec(88,1,4989),OVERLAP_DECODE_FIVE_STAGE,"B88 48.6");
 r("h800",32,32,true,0,pre(16384,2048),OVERLAP_PREFILL_DUAL_BATCH,"profile prefill 2090");
 for(int k=0;k<OVERLAP_KIND_COUNT;k++) r("h800",144,32,true,0,dec(88,1,4989),k,overlap_name(k));
 for(int k=0;k<OVERLAP_KIND_COUNT;k++) r("h800",32,32,true,0,pre(16384,2048),k,overlap_name(k));
 r("h800",144,32,true,1.1,dec(88,1,4989),OVERLAP_DECODE_FIVE_STAGE,"sigma 1.1");
 r("h800",144,32,true,.6,dec(88,1,4989),OVERLAP_DECODE_FIVE_STAGE,"sigma .6");
 r("h800",128,0,false,1.1,dec(88,1,4989),OVERLAP_DECODE_FIVE_STAGE,"none sigma 1.1 128");
 r("h800",32,32,true,1.1,dec(88,1,4989),OVERLAP_DECODE_FIVE_STAGE,"EP32 1.1");
 r("h800",32,0,false,1.1,dec(88,1,4989),OVERLAP_DECODE_FIVE_STAGE,"none EP32 1.1");
 r("h800",72,32,true,1.1,dec(128,1,2048),OVERLAP_DECODE_FIVE_STAGE,"EP72 1.1");
 r("h100",72,32,true,0.6,dec(256,1,2050),OVERLAP_DECODE_FIVE_STAGE,"SGL 22282/node");
 r("h100",72,32,true,0.6,dec(128,2,4096),OVERLAP_DECODE_FIVE_STAGE,"SGL MTP 17373/node");
 r("h100",32,32,true,0,pre(16384,2048),OVERLAP_PREFILL_DUAL_BATCH,"SGL 4K perfect");
 return 0;}
